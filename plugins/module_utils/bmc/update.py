# Firmware through a BMC over Redfish: what runs, sending one image by the way that the BMC offers, its tasks, the resets. What to send is decided elsewhere.
#
# The class has the methods of firmware.port.FirmwarePort (a test compares them); a plan's engine drives it through hours and restarts of the BMC, so each
# call has its own deadline and leaves no state behind but what can be read again.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import re

from ..core.deadline import Deadline
from ..core.errors import DeadlineExceeded, Unsupported
from . import connect, cycle, operations, tasks, transform, upload
from .errors import AnswerLost, HttpError
from .power import start_cycle
from .reset import prepare, send_reset

CALL_S = 120.0
INVENTORY_S = 300.0
METHODS = ("multipart", "push", "simple")
# States of vendor jobs (Dell) that mean: written, and waiting for the server's restart.
STAGED_JOBS = ("scheduled", "rebootpending", "waiting", "readyforexecution")
UPDATE_WORDS = re.compile(r"updat|firmware|flash|bios|image", re.IGNORECASE)
MOST_TASKS = 200


def staged_version(resource):
    """The version that waits for a reset, where the BMC shows it (in Oem, under one of a few names); else None."""
    todo = [resource.get("Oem"), resource]
    for _depth in range(4):
        following = []
        for place in todo:
            if not isinstance(place, dict):
                continue
            for key in ("StagedVersion", "PendingVersion", "StagedFirmwareVersion"):
                if isinstance(place.get(key), str) and place[key].strip():
                    return place[key].strip()
            if place is not resource:
                following += list(place.values())
        todo = following
    return None


def simulated(resource):
    """Whether the BMC says that what it tells of is not real (our lab's BMCs do, in Oem)."""
    oem = resource.get("Oem")
    return isinstance(oem, dict) and any(
        isinstance(part, dict) and part.get("Simulated") is True for part in oem.values()
    )


def _words(item):
    """A message and those of its arguments that it does not quote: some BMCs put the reason only there."""
    text, args = transform.text(item, "Message"), item.get("MessageArgs")
    more = [str(arg) for arg in (args if isinstance(args, list) else []) if arg and str(arg) not in text]
    return f"{text} ({', '.join(more)})" if more else text


def task_facts(body):
    """{"state": running|staged|done|failed, "percent", "text"} of a Task or a vendor's job, by what it says of itself and not by an HTTP status."""
    word, said = tasks.state_of(body)
    oem = tasks.state_of({"JobState": transform.text(body, "Oem", "Dell", "JobState")})[1]
    plain = said.replace(" ", "").lower()
    items = body.get("Messages")
    items = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    text = next((text for text in map(_words, reversed(items)) if text), "") or transform.text(body, "Message")
    state = "running"
    if (oem or said).replace(" ", "").lower() in STAGED_JOBS:
        state = "staged"
    elif word == tasks.DONE:
        state = "failed" if transform.text(body, "TaskStatus") == "Critical" else "done"
    elif word == tasks.FAILED or plain in ("interrupted", "userintervention"):
        state = "failed"
        if plain == "userintervention":
            text = f"the BMC waits for a person: {text}"
    return {"state": state, "percent": tasks.percent_of(body), "text": text[:300]}


def _is_update(body):
    """False where a task certainly is something else than an update."""
    target = transform.text(body, "Payload", "TargetUri")
    if target:
        return "updateservice" in target.lower()
    name = transform.text(body, "Name")
    plain = not name or re.fullmatch(r"(task|job|jid)?[ _]*\d*", name, re.IGNORECASE)
    return bool(plain or UPDATE_WORDS.search(name) or UPDATE_WORDS.search(transform.text(body, "Description")))


class RedfishUpdater:
    """One BMC. `fence` is called immediately before every request that changes something; `publish(image)` -> URL for BMCs that pull, or None.

    `call_s`: the most seconds for one call that has no limit of its own.
    """

    def __init__(self, endpoint, fence=None, publish=None, call_s=CALL_S):
        self.endpoint, self._fence, self._publish, self._call_s = endpoint, fence, publish, call_s
        self._client = None
        self._places = {}  # id in the inventory -> URI
        self.warnings = []
        self.simulated = False  # what this BMC shows is not real, and it says so

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        if self._client is not None:
            self.warnings += self._client.warnings
            self._client.close()
            self._client = None

    def client(self, seconds=None, what="a request"):
        """The open client with a fresh deadline."""
        deadline = Deadline(seconds or self._call_s, what, host=self.endpoint.label)
        if self._client is None:
            self._client = connect(self.endpoint, deadline, self._fence)
        self._client.deadline = deadline
        self._client.login()
        return self._client

    def _service(self, client):
        uri = transform.link(client.root(), "UpdateService")
        if not uri:
            raise Unsupported(
                "the BMC has no update service",
                host=self.endpoint.label,
                thing="UpdateService",
                wanted="a link UpdateService of the service root",
                next_step="update this server in-band, or by the vendor's own tool",
                code="no_update_service",
            )
        return client.get(uri)

    # ---- reading ------------------------------------------------------------------------------------------------------------------------------
    def identity(self):
        """What says which server this is: serial, manufacturer, model, sku, bmc_vendor, bmc_model."""
        client = self.client(what="the identity of the server")
        system = client.system()
        facts, bmc = transform.system_facts(system, client.chassis()), client.identity()
        found = {key: facts.get(key) for key in ("serial", "manufacturer", "model", "sku")}
        return {**found, "bmc_vendor": bmc.get("vendor"), "bmc_model": bmc.get("model")}

    def inventory(self, only=None, seconds=INVENTORY_S):
        """See FirmwarePort. `only`: ids; reading all takes minutes on servers with a hundred rows."""
        client = self.client(seconds, "the firmware inventory")
        items = [None]
        if only and all(name in self._places for name in only):
            items = [client.optional(self._places[name], None) for name in only]
        if not all(items):
            # Some BMCs (Lenovo) do not know a child before its parents were read in this session.
            service = self._service(client)
            items = client.members(transform.link(service, "FirmwareInventory"), "the firmware inventory")
        found = []
        for item in items:
            name = transform.text(item, "Id") or transform.text(item, "Name")
            if not name:
                continue
            self._places[name] = transform.text(item, "@odata.id")
            self.simulated = self.simulated or simulated(item)
            updateable = item.get("Updateable")
            found.append(
                {
                    "id": name,
                    "name": transform.text(item, "Name") or None,
                    "version": transform.text(item, "Version") or None,
                    "updateable": updateable if isinstance(updateable, bool) else None,
                    "staged": staged_version(item),
                    "path": "bmc",
                }
            )
        return sorted(found, key=lambda row: row["id"])

    def tasks(self):
        client = self.client(what="the list of tasks")
        service = client.optional(transform.link(client.root(), "Tasks"), None)
        collection = transform.link(service or {}, "Tasks")
        if not collection:
            return None
        page = client.optional(collection, "the tasks")
        if page is None:
            return None
        found = {}
        for item in client._pages(page)[-MOST_TASKS:]:
            body = client._whole(item, None)
            if not body:
                continue
            uri, started = transform.text(body, "@odata.id"), transform.text(body, "StartTime")
            facts = task_facts(body)
            found[f"{transform.same_path(uri)}|{started}"] = {
                "uri": uri,
                "started": started,
                "name": transform.text(body, "Name"),
                "update": _is_update(body),
                **facts,
            }
        return found

    def task(self, handle):
        client = self.client(what="the BMC's task")
        for uri in (handle.get("monitor"), handle.get("task")):
            if not uri:
                continue
            try:
                answer = client.look(uri)
            except HttpError as error:
                if error.status in (404, 405, 410):
                    continue
                raise
            body = answer.body or {}
            if "TaskState" in body or "JobState" in body:
                return task_facts(body)
            if answer.status == 202:
                return {"state": "running", "percent": None, "text": ""}
            return {"state": "done", "percent": 100, "text": ""}  # the monitor answers with the operation's own result
        return {"state": "gone", "percent": None, "text": ""}

    def marks(self):
        client = self.client(what="the state of the server")
        system = client.refresh_system()
        manager = client.optional(transform.text(client.manager(), "@odata.id"), None) or {}
        return {
            "host": transform.text(system, "LastResetTime") or None,
            "bmc": transform.text(manager, "LastResetTime") or None,
        }

    def power(self):
        return self.client(what="the power state").read_power()

    def health(self):
        client = self.client(what="the health of the server")
        system = client.refresh_system()
        found = {"system": system, "bmc": client.optional(transform.text(client.manager(), "@odata.id"), None)}
        for uri in transform.links(system, "Links", "Chassis")[:8]:
            found[f"chassis {uri.rstrip('/').rsplit('/', 1)[-1]}"] = client.optional(uri, None)
        words = {}
        for name, body in found.items():
            if body:
                word = transform.text(body, "Status", "HealthRollup") or transform.text(body, "Status", "Health")
                words[name] = word or None
        return words

    # ---- sending ------------------------------------------------------------------------------------------------------------------------------
    def methods(self):
        """{"multipart": URI, "push": URI, "simple": URI} as far as this BMC offers them."""
        found = transform.update_ways(self._service(self.client(what="the update service")))
        if "cgi-bin" in found.get("push", ""):  # iLO's is a form of its web page and no plain push
            del found["push"]
        return found

    def method(self, step):
        offered = self.methods()
        wanted = METHODS if step.method == "auto" else (step.method,)
        reachable = [name for name in wanted if name in offered]
        if not (step.image.get("url") or self._publish):
            reachable = [name for name in reachable if name != "simple"]
        if not reachable:
            pull_only = "simple" in offered and "simple" in wanted
            raise Unsupported(
                "the BMC offers no way to send this image",
                host=self.endpoint.label,
                thing=f"firmware {step.component}",
                wanted=" or ".join(wanted),
                seen=", ".join(offered) or "nothing",
                next_step="this BMC only pulls: give image_server, an address of this machine that it can reach"
                if pull_only
                else "update it in-band, or by the vendor's own tool",
                code="no_update_method",
            )
        return reachable[0]

    def _targets(self, step):
        if step.targets == "inventory":
            if any(name not in self._places for name in step.inventory):
                self.inventory()
            return [self._places[name] for name in step.inventory if name in self._places]
        return list(step.targets) if isinstance(step.targets, (list, tuple)) else None

    def _parameters(self, step):
        found = {}
        targets = self._targets(step)
        if targets is not None:
            found["Targets"] = targets
        if step.force:
            found["ForceUpdate"] = True
        if step.apply_time:
            found["@Redfish.OperationApplyTime"] = step.apply_time
        return found

    def push(self, step, image, method, before_last):
        uri = self.methods()[method]
        parameters = self._parameters(step)
        client = self.client(None, f"the image {image.sha256[:12]}")
        if method == "simple":
            url = step.image.get("url") or self._publish(image)
            before_last()
            return self._handle(client.post(uri, {"ImageURI": url, **parameters, **(step.oem or {})}))
        if method == "push":
            self._push_options(client, parameters)

            def make():
                return "application/octet-stream", upload.Body(image.path, before_last=before_last)
        else:

            def make():
                return upload.multipart(image.path, image.name, parameters, step.oem, before_last)

        return self._handle(upload.send(client, uri, make))

    def _push_options(self, client, parameters):
        """A raw push has no parameters of its own: what the BMC has properties for is set before it."""
        service = self._service(client)
        body = {}
        targets = parameters.get("Targets", [])  # those of an earlier image stay until somebody takes them away
        if "HttpPushUriTargets" in service and (service["HttpPushUriTargets"] or []) != targets:
            body["HttpPushUriTargets"] = targets
        if "@Redfish.OperationApplyTime" in parameters and "HttpPushUriOptions" in service:
            body["HttpPushUriOptions"] = {
                "HttpPushUriApplyTime": {"ApplyTime": parameters["@Redfish.OperationApplyTime"]}
            }
        if body:
            try:
                client.patch(transform.text(service, "@odata.id"), body)
            except HttpError as error:
                if error.status not in (405, 501):
                    raise
                # the image says itself what it is for; so it does on every BMC without these properties
                self.warnings.append(f"the BMC does not let {', '.join(body)} be set, the image was sent without")

    @staticmethod
    def _handle(answer):
        handle = tasks.handle_of(answer)
        return {"task": handle.task, "monitor": handle.monitor, "done": False}

    # ---- resets -------------------------------------------------------------------------------------------------------------------------------
    def restart(self, activation):
        if activation == "bmc_reset":
            self._restart_bmc()
        elif activation == "host_reboot":
            word = "on" if self.power() == "off" else "cycle"
            self.close()
            operations.power(self.endpoint, word, 300.0, fence=self._fence)
        else:
            self._cycle(activation)

    def _restart_bmc(self):
        client = self.client(what="the restart of the BMC")
        body, target, _mark = prepare(client, "graceful")
        try:
            send_reset(client, target, body)
        except (AnswerLost, DeadlineExceeded):
            pass  # it takes the BMC away with it
        self.close()

    def _cycle(self, activation):
        client = self.client(None, activation)
        way = cycle.choose(client, activation)
        client.deadline = Deadline(300.0, activation, host=self.endpoint.label)
        start_cycle(client, way, client.deadline)
        self.close()

    def switch_on(self):
        self.close()
        operations.power(self.endpoint, "on", 300.0, fence=self._fence)

    def switch_off(self):
        self.close()
        operations.power(self.endpoint, "off", 300.0, fence=self._fence)


def info(endpoint, deadline_s=INVENTORY_S):
    """What a BMC says about its firmware: {inventory, methods, tasks, identity, warnings}. Reads only."""
    if endpoint.protocol != "redfish":
        raise Unsupported(
            "firmware is read over Redfish only",
            host=endpoint.label,
            thing="bmc_protocol",
            wanted="redfish",
            seen=endpoint.protocol,
            next_step="bmc_info gives the BMC's own version over IPMI",
        )
    with RedfishUpdater(endpoint) as updater:
        inventory = updater.inventory(seconds=deadline_s)
        try:
            methods = sorted(updater.methods())
        except Unsupported:
            methods = []
        tasks_now = updater.tasks() or {}
        found = {
            "inventory": [
                {key: row[key] for key in ("id", "name", "version", "updateable", "staged")} for row in inventory
            ],
            "methods": methods,
            "tasks": [
                {key: task[key] for key in ("uri", "name", "state", "percent", "text", "started")}
                for task in tasks_now.values()
                if task["update"]
            ],
            "identity": updater.identity(),
        }
    return {**found, "warnings": list(dict.fromkeys(updater.warnings))}
