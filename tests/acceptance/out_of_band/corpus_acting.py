# Part of point 1: power, boot, BIOS, virtual media and firmware on a served tree: what check mode predicts, and what is then sent, word for word.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each case goes through the door that the modules and action plugins call: in check mode, when the server must get no write and the difference must be the one
that the tree asks for; for real, when the server must get exactly the requests that the tree asks for; and again, when nothing may be left to do."""

from __future__ import annotations

import collections
import hashlib
import json

import corpus_offers
from corpus_spoiling import params_of
from served_tree import PASSWORD

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.plan import Change, Plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.doors import bmc as door
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import baseline
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.engine import Limits
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.serve import ImageServer
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import firmware

IMAGE = "http://192.0.2.9/rescue.iso"
REDFISH_TARGETS = {"pxe": "Pxe", "uefi_http": "UefiHttp", "disk": "Hdd", "bios": "BiosSetup"}
# what an action sends where the BMC allows all of it; the first row that it does
POWER = {
    "on": (("On",), ("ForceOn",)),
    "off": (("ForceOff",),),
    "graceful": (("GracefulShutdown",),),
    "restart": (("GracefulShutdown", "On"),),
    "reset": (("ForceRestart",),),
    "cycle": (("PowerCycle",), ("ForceOff", "On")),
    "nmi": (("Nmi",),),
}
FIRMWARE_LIMITS = Limits(poll=0.1, ready=20, effect=10, full=2, blind=2)


class Acting:
    """One served tree: `wrong` has a line for everything that was not as the tree asks for."""

    def __init__(self, name, lab, facts, registry, place):
        self.node = name.replace("_", "-")  # a host name has no underline
        self.name, self.lab, self.registry, self.place = name, lab, registry, place
        self.offers, self.wrong, self.count = corpus_offers.OFFERS[name], [], collections.Counter()
        self.reset_types = facts["reset_types"]["value"]
        self.connection = {
            "bmc_address": "127.0.0.1",
            "bmc_port": lab.port,
            "bmc_username": "admin",
            "bmc_password": PASSWORD,
            "bmc_tls": "verify",
            "bmc_ca_path": lab.ca_path,
            "bmc_protocol": "redfish",
        }

    def run(self):
        # boot first: a restart takes a one-time override
        for part in (self.boot, self.order, self.power, self.bios, self.media, self.firmware):
            part()
        if self.lab.sessions:
            self.wrong.append(f"{self.name}: {self.lab.sessions} sessions are left")

    def call(self, module, options, check):
        params = {**self.connection, **params_of(module, {"timeout": 90, **options})}
        return door.execute(module, params, check=check, diff=True, host=self.name)

    def serial(self):
        """The serial that the discover stage would give the registry."""
        found = self.call("bmc_info", {"sections": ["system"]}, False)
        return (found.get("info") or {}).get("system", {}).get("serial") or self.node

    def case(self, module, options, wanted, requests=(), again=True):
        """`wanted`: the changes as (thing, before, after), or the code of the refusal. `requests`: (method, path, body) that it takes."""
        what = f"{self.name}: {module} {' '.join(f'{key}={value}' for key, value in options.items())}"
        self.count["cases"] += 1
        for check in (True, False):
            mode = "check mode" if check else "real run"
            found, sent = self.call(module, options, check), self.lab.take()
            if isinstance(wanted, str):
                self.count["refusals"] += not check
                code = found.get("error", {}).get("code", "none: " + str(found.get("msg")))
                self.same(f"{what}, {mode}: refusal", wanted, code)
                self.same(f"{what}, {mode}: requests", [], sent)
                continue
            if found.get("failed"):
                self.wrong.append(f"{what}, {mode}: {found['msg']}")
                return
            diff = Plan([Change(*row) for row in wanted]).diff()
            self.same(f"{what}, {mode}: changed", bool(wanted), found["changed"])
            self.same(f"{what}, {mode}: difference", diff, found["diff"])
            self.same(f"{what}, {mode}: requests", [] if check else _plain(requests), _plain(sent))
            if not check:
                self.count["requests"] += len(sent)
                self.count["changes"] += bool(wanted)
        if again and not isinstance(wanted, str) and wanted:
            found, sent = self.call(module, options, False), self.lab.take()
            self.same(f"{what}, again: changed", False, found.get("changed", found.get("msg")))
            self.same(f"{what}, again: requests", [], sent)

    def same(self, what, wanted, seen):
        if wanted != seen:
            self.wrong.append(f"{what}: wanted {wanted}, seen {seen}")

    # ---- the operations -----------------------------------------------------------------------------------------------------------------------
    def cycles(self):
        """Mains and standby power, in check mode only: the served BMC does not go away. What it would send is in the result."""
        for kind in ("ac_cycle", "aux_cycle"):
            offer = self.offers.get("power") or self.offers.get("cycles", {}).get(kind, "no_power_cycle")
            what = f"{self.name}: bmc_power state={kind}, check mode"
            self.count["cases"] += 1
            found, sent = self.call("bmc_power", {"state": kind}, True), self.lab.take()
            self.same(f"{what}: requests", [], sent)
            if found.get("failed"):
                self.count["refusals"] += 1
                self.same(f"{what}: refusal", offer, found["error"]["code"])
                continue
            self.same(f"{what}: action", offer, found.get("action"))
            self.same(
                f"{what}: difference", Plan([Change("power", "on", f"on, after an {kind}")]).diff(), found["diff"]
            )

    def power(self):
        self.cycles()
        if "power" in self.offers:
            for state in POWER:
                self.case("bmc_power", {"state": state}, self.offers["power"])
            return
        target = f"{self.offers['system']}/Actions/ComputerSystem.Reset"

        def sends(state):
            rows = [row for row in POWER[state] if set(row) <= set(self.reset_types)]
            return [("POST", target, {"ResetType": word}) for word in rows[0]] if rows else None

        def one(state, before, after, again=True):
            requests = sends(state)
            changes = [("power", before, after)] if before != after else []
            self.case("bmc_power", {"state": state}, changes if requests else "unsupported", requests or (), again)
            return bool(requests)

        self.case("bmc_power", {"state": "on"}, [])
        for state in ("nmi", "reset", "cycle", "restart"):
            one(state, "on", f"on, after a {state}", again=False)
        if one("graceful", "on", "off"):
            self.case("bmc_power", {"state": "reset"}, [("power", "off", "on")], sends("on"), again=False)
        one("off", "on", "off")
        self.case("bmc_power", {"state": "graceful"}, [])
        self.case("bmc_power", {"state": "nmi"}, "server_off")
        one("on", "off", "on")

    def boot(self):
        offer = self.offers["boot"]
        targets = ("pxe", "uefi_http", "disk", "cd", "bios", "none")
        if isinstance(offer, str):
            for target in targets:
                # no override there is already
                self.case("bmc_boot", {"target": target}, [] if target == "none" and offer == "unsupported" else offer)
            return
        now = [*offer["present"], offer["mode"]]
        for target in targets:
            if target in offer["refused"]:
                self.case("bmc_boot", {"target": target}, "unsupported")
            else:
                self._boot(offer, now, target, "disabled" if target == "none" else "once")
        if offer["persistent"]:
            self._boot(offer, now, "pxe", "persistent", once=False)
        else:
            self.case("bmc_boot", {"target": "pxe", "once": False}, "unsupported")
        # the other mode than it has; DGX shows null and lists UEFI only
        other = {"UEFI": "Legacy", "Legacy": "UEFI", None: "UEFI"}.get(offer["mode"])
        if offer["mode"] is None:
            self.case("bmc_boot", {"target": "pxe", "mode": "legacy"}, "unsupported")
        if other:
            self._boot(offer, now, "pxe", "once", mode=other)
        else:
            self._boot(offer, now, "pxe", "once")
            self.case("bmc_boot", {"target": "pxe", "mode": "uefi"}, [])
        self._boot(offer, now, "none", "disabled")

    def _boot(self, offer, now, target, enabled, once=True, mode=None):
        """`now`: (target, enabled, mode as the BMC writes it) of the override; kept up to date."""
        options = {"target": target, **({} if once else {"once": False}), **({"mode": mode.lower()} if mode else {})}
        changes = [("boot.target", now[0], target), ("boot.enabled", now[1], enabled)]
        if mode:
            changes.append(("boot.mode", now[2].lower() if now[2] else None, mode.lower()))
            now[2] = mode
        words = {"once": "Once", "persistent": "Continuous", "disabled": "Disabled"}
        body = {"BootSourceOverrideEnabled": words[enabled]}
        body["BootSourceOverrideTarget"] = {**REDFISH_TARGETS, "cd": offer["cd"], "none": "None"}[target]
        if now[2]:
            body["BootSourceOverrideMode"] = now[2]
        changes = [row for row in changes if row[1] != row[2]]
        self.case("bmc_boot", options, changes, [("PATCH", offer["place"], {"Boot": body})] if changes else ())
        now[:2] = [target, enabled]

    def order(self):
        place = self.offers["order"]
        if not place.startswith("/"):
            self.case("bmc_boot", {"order": ["pxe"]}, place)
            return
        own, settings = self.lab.service.load(self.offers["system"]), self.lab.service.load(place)
        present = settings["Boot"].get("BootOrder") or own["Boot"]["BootOrder"]
        wanted = [present[-1], *present[:-1]]
        request = ("PATCH", place, {"Boot": {"BootOrder": wanted}})
        self.case("bmc_boot", {"order": [present[-1]]}, [("boot.order", present, wanted)], [request])

    def bios(self):
        offer = self.offers["bios"]
        if isinstance(offer, str):
            self.case("bmc_bios", {"attributes": {"Nothing": "Enabled"}}, offer)
            return
        if len(offer) == 3:
            self.case("bmc_bios", {"attributes": {offer[1]: offer[2]}}, offer[0])
            return
        place, name, have, other, apply_time = offer
        self.case("bmc_bios", {"attributes": {name: have}}, [])
        self.case("bmc_bios", {"attributes": {f"{name}x": other}}, "not_found")
        patch = {"Attributes": {name: other}}
        if apply_time:
            patch["@Redfish.SettingsApplyTime"] = {"ApplyTime": "OnReset"}
        change = (f"bios.{name}", have, other)
        if place.lower().endswith("/bios"):
            self.case("bmc_bios", {"attributes": {name: other}}, [change], [("PATCH", place, patch)])
            return
        self.case("bmc_bios", {"attributes": {name: other}}, [change], [("PATCH", place, patch)])
        # it is pending: sent already, and a restart makes it run
        reset = ("POST", f"{self.offers['system']}/Actions/ComputerSystem.Reset", {"ResetType": "ForceRestart"})
        self.case(
            "bmc_bios",
            {"attributes": {name: other}, "reboot": "force"},
            [(f"bios.{name}", have, other), ("restart", None, "force")],
            [reset],
        )

    def media(self):
        for kind, offer in (
            self.offers["media"].items() if isinstance(self.offers["media"], dict) else [("cd", self.offers["media"])]
        ):
            options = {"image": IMAGE, "media_type": kind}
            if isinstance(offer, str):
                self.case("bmc_virtual_media", options, offer)
                continue
            device, path, insert, eject = offer
            inserted = {"Image": IMAGE, "Inserted": True, "WriteProtected": True}
            request = (
                ("POST", f"{path}/Actions/VirtualMedia.InsertMedia", inserted)
                if insert == "action"
                else ("PATCH", path, inserted)
            )
            self.case("bmc_virtual_media", options, [(f"media.{device}", None, IMAGE)], [request])
            request = (
                ("POST", f"{path}/Actions/VirtualMedia.EjectMedia", {})
                if eject == "action"
                else ("PATCH", path, {"Image": None, "Inserted": False})
            )
            self.case(
                "bmc_virtual_media",
                {"state": "ejected", "device": device},
                [(f"media.{device}", IMAGE, None)],
                [request],
            )

    def firmware(self):
        offer = self.offers["firmware"]
        where = door.endpoint_of({**self.connection, "timeout": 60}, self.name)
        if isinstance(offer, str):
            self._firmware(where, "BIOS", None, "99.1", "auto", offer)
            return
        row, running, ways = offer
        for number, way in enumerate(("auto", "multipart", "push", "simple")):
            wanted = f"99.{number}"
            chosen = next(iter(ways)) if way == "auto" else way
            self._firmware(
                where, row, running, wanted, way, (chosen, ways[chosen]) if chosen in ways else "no_update_method"
            )
            running = wanted if chosen in ways else running

    def _firmware(self, where, row, running, wanted, way, offer):
        """`offer`: (way, path where the image is sent), or the code of the refusal."""
        what, image = (
            f"{self.name}: bmc_firmware {row} {running} -> {wanted} by {way}",
            self.place / f"{self.name}-{wanted}.bin",
        )
        content = f"firmware {row} {wanted}\n".encode() * 5000
        image.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        component = {
            "inventory": f"^{baseline.re.escape(row)}$",
            "wanted": wanted,
            "rule": "exact",
            "activation": "immediate",
            "method": way,
        }
        component["image"] = {"path": str(image), "sha256": digest}
        platform = {"pause_s": 0, "settle_s": 1, "components": {"part": component}}
        rules = baseline.parse({"schema": 1, "name": "point 1", "platforms": {"p": platform}}, what)
        with ImageServer("127.0.0.1") as images:
            options = firmware.Options(publish=images.publish, limits=FIRMWARE_LIMITS, retry=True)
            self.count["cases"] += 1
            for check in (True, False):
                mode = "check mode" if check else "real run"
                if not check and not isinstance(offer, str):
                    self.lab.flash = (self._row(row), wanted)
                try:
                    found = firmware.update(
                        where, self.registry, self.node, rules, options, actor="point 1", check=check
                    )
                except BaremetalError as error:
                    found = error.as_result()
                sent = self.lab.take()
                if isinstance(offer, str):
                    self.count["refusals"] += not check
                    seen = found.get("error", {}).get("code") or ("none", found.get("would_refuse"))
                    if check and found.get("would_refuse"):
                        seen = offer  # in check mode it is a line of the result; its code is compared in the real run
                    self.same(f"{what}, {mode}: refusal", offer, seen)
                    self.same(f"{what}, {mode}: requests", [], sent)
                    continue
                if found.get("failed") or found.get("would_refuse"):
                    self.wrong.append(f"{what}, {mode}: {found.get('msg')}; {found.get('would_refuse')}")
                    return
                plan = Plan([Change("firmware.part", running, wanted)]).diff()
                self.same(f"{what}, {mode}: difference", plan["before"], found["diff"]["before"])
                self.same(f"{what}, {mode}: changed", True, found["changed"])
                if check:
                    self.same(f"{what}, {mode}: requests", [], sent)
                    continue
                self.count["requests"] += len(sent)
                self.count["changes"] += 1
                self.same(f"{what}, {mode}: requests", self._upload(*offer, image.name, digest), _without_address(sent))
                self.same(f"{what}, {mode}: state", "active", found["state"])

    def _row(self, row):
        service = self.lab.service
        return next(uri for uri in service.names if "/FirmwareInventory/" in uri and service.load(uri).get("Id") == row)

    @staticmethod
    def _upload(way, path, name, digest):
        if way == "multipart":
            return [("POST", path, {"UpdateParameters": {}, "UpdateFile": digest})]
        if way == "push":
            return [("POST", path, digest)]
        return [("POST", path, {"ImageURI": name}), ("PULLED", name, digest)]


def _without_address(sent):
    """An image to be pulled is at an address that nobody can know before; what it ends in counts."""
    return [
        (
            method,
            path,
            {**body, "ImageURI": body["ImageURI"].rsplit("/", 1)[-1]}
            if isinstance(body, dict) and "ImageURI" in body
            else body,
        )
        for method, path, body in sent
    ]


def _plain(requests):
    return json.loads(json.dumps(list(requests)))
