# The updater against the simulator: every way of sending, its tasks, its resets.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import hashlib
import http.server
import inspect
import os
import pathlib
import re
import threading
import time

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import update
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.errors import AnswerLost, HttpError
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import (
    BaremetalError,
    FencedOut,
    Unsupported,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import port
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.images import Local
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.planner import Step
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.serve import ImageServer
from bmc_simulator import testing

from .conftest import endpoint

# test processes side by side must not meet
WORKER = 51 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])

COMPONENTS = {
    "BMC": {"version": "1.0", "activation": "bmc_reset", "auto": False},
    "BIOS": {"version": "1.0", "activation": "host_reboot"},
    "CPLD": {"version": "1.0", "activation": "ac_cycle"},
    "FPGA": {"version": "1.0", "activation": "aux_cycle"},
    "GPU": {"version": "1.0", "activation": "immediate"},
}


@pytest.fixture
def lab():
    with testing.running([testing.node_config(1, components=COMPONENTS)]) as found:
        yield found


@pytest.fixture
def updater(lab):
    with update.RedfishUpdater(endpoint(lab)) as found:
        yield found


@pytest.fixture
def picture(tmp_path):
    """step and image for a component."""

    def make(component="BIOS", version="2.0", size=700_000, **more):
        content = testing.firmware_image(component, version, size=size)
        path = tmp_path / f"{component}-{version}.bin"
        path.write_bytes(content)
        image = Local(str(path), len(content), hashlib.sha256(content).hexdigest())
        fields = {"image": {"path": str(path), "url": None}, "activation": "host_reboot", "why": "", **more}
        return Step(1, 1, component, [component], "1.0", version, **fields), image

    return make


def arrived(lab):
    return [row["components"] for row in lab.control.call("images").get("gpu01", [])]


def follow(updater, handle, seconds=15):
    end = time.monotonic() + seconds
    while (seen := updater.task(handle))["state"] == "running" and time.monotonic() < end:
        time.sleep(0.05)
    return seen


def versions(updater, only=None):
    return {row["id"]: row["version"] for row in updater.inventory(only) if only is None or row["id"] in only}


def test_it_is_a_firmware_port():
    for name in port.METHODS:
        ours = inspect.signature(getattr(update.RedfishUpdater, name))
        theirs = inspect.signature(getattr(port.FirmwarePort, name))
        assert list(ours.parameters)[: len(theirs.parameters)] == list(theirs.parameters), name


def test_inventory(updater):
    rows = updater.inventory()
    assert [row["id"] for row in rows] == ["BIOS", "BMC", "CPLD", "FPGA", "GPU"]
    assert rows[0] == {
        "id": "BIOS",
        "name": "BIOS firmware",
        "version": "1.0",
        "updateable": True,
        "staged": None,
        "path": "bmc",
    }
    before = len(updater.client().sent)
    assert versions(updater, ["BMC"]) == {"BMC": "1.0"}
    assert len(updater.client().sent) == before + 1  # one row, one request


def test_identity_health_power(lab, updater):
    assert updater.identity()["serial"] == lab["gpu01"].serial
    assert updater.health()["system"] == "OK" and updater.health()["bmc"] == "OK"
    assert updater.power() == "off"
    updater.switch_on()
    assert updater.power() == "on"
    updater.switch_off()
    assert updater.power() == "off"


@pytest.mark.parametrize("method", ["multipart", "push"])
@pytest.mark.parametrize("targets", ["none", "inventory"])
def test_pushed(lab, updater, picture, method, targets):
    updater.switch_on()
    step, image = picture(targets=targets)
    calls = []
    handle = updater.push(step, image, method, lambda: calls.append(len(arrived(lab))))
    assert calls == [0]
    assert follow(updater, handle)["state"] == "done"
    assert arrived(lab) == [{"BIOS": "2.0"}]
    row = updater.inventory(["BIOS"])[0]
    assert (row["version"], row["staged"]) == ("1.0", "2.0")
    updater.restart("host_reboot")
    lab.wait("gpu01", lambda state: state["firmware"]["BIOS"] == "2.0")
    assert versions(updater, ["BIOS"]) == {"BIOS": "2.0"} and updater.power() == "on"


PARAMETERS = {"targets": "inventory", "force": True, "apply_time": "OnReset"}
SENT = {
    "Targets": ["/redfish/v1/UpdateService/FirmwareInventory/BIOS"],
    "ForceUpdate": True,
    "@Redfish.OperationApplyTime": "OnReset",
}


def wrote(lab):
    """(method, path, body) of what the BMC was sent, without sessions."""
    return [(row["method"], row["path"].rsplit("/", 1)[-1], row.get("body")) for row in lab.requests("gpu01")]


def test_the_platform_says_what_is_sent_beside_a_multipart_image(lab, updater, picture):
    step, image = picture(**PARAMETERS, oem={"OemParameters": {"ImageType": "BIOS"}})
    follow(updater, updater.push(step, image, "multipart", lambda: None))
    step, image = picture(version="3.0")
    follow(updater, updater.push(step, image, "multipart", lambda: None))
    # and nothing that it does not say
    assert wrote(lab) == [("POST", "update-multipart", SENT), ("POST", "update-multipart", None)]


def test_a_plain_push_has_its_targets_and_its_time_set_before(lab, updater, picture):
    step, image = picture(**PARAMETERS)
    assert follow(updater, updater.push(step, image, "push", lambda: None))["state"] == "done"
    options = {"HttpPushUriApplyTime": {"ApplyTime": "OnReset"}}
    before = ("PATCH", "UpdateService", {"HttpPushUriTargets": SENT["Targets"], "HttpPushUriOptions": options})
    assert wrote(lab) == [before, ("POST", "update", None)] and updater.warnings == []
    assert arrived(lab) == [{"BIOS": "2.0"}]
    # for another component, and without targets: those of the last image must not stay
    step, image = picture(component="GPU")
    assert follow(updater, updater.push(step, image, "push", lambda: None))["state"] == "done"
    assert arrived(lab)[1] == {"GPU": "2.0"}


def test_simple_update_has_its_parameters_in_the_body(lab, updater, picture):
    step, _image = picture(**PARAMETERS, oem={"TransferProtocol": "HTTP"})
    step.image["url"] = "http://127.0.0.1:9/bios.bin"
    updater.push(step, Local(None, 0, "ab" * 32, step.image["url"]), "simple", lambda: None)
    body = {"ImageURI": "http://127.0.0.1:9/bios.bin", "TransferProtocol": "HTTP", **SENT}
    assert wrote(lab) == [("POST", "UpdateService.SimpleUpdate", body)]


def test_pulled(lab, picture):
    step, image = picture()
    content = pathlib.Path(image.path).read_bytes()

    class Give(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *unused):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Give)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        lab.set_behaviour("gpu01", update_methods=["simple"])
        published = []

        def publish(what):
            published.append(what)
            return f"http://127.0.0.1:{server.server_port}/x"

        with update.RedfishUpdater(endpoint(lab), publish=publish) as updater:
            assert updater.method(step) == "simple"
            handle = updater.push(step, image, "simple", lambda: None)
            assert follow(updater, handle)["state"] == "done"
        assert published == [image] and arrived(lab) == [{"BIOS": "2.0"}]
    finally:
        server.shutdown()
        server.server_close()


# What each product takes, from its profile; X10 has no update service.
WAYS = {
    "idrac": ("multipart", "simple"),
    "ilo": ("simple",),
    "xcc": ("multipart", "push", "simple"),
    "supermicro": ("multipart", "simple"),
    "dgx": ("multipart", "simple"),
    "gb200": ("multipart", "push"),
    "gigabyte": ("simple",),
    "cray": ("simple",),
    "kaytus": ("push", "simple"),
    "xfusion": ("simple",),
}


@pytest.fixture(scope="module")
def products():
    quick = {"power_lag_s": 0.05, "task_seconds": 0.1, "manager_reset_s": 0.1}
    groups = [
        {"count": 3, "profile": name, "prefix": name, "address": f"127.{WORKER}.{60 + number}.1", "behaviour": quick}
        for number, name in enumerate(WAYS)
    ]
    with testing.fleet(groups=groups) as found:
        yield found


@pytest.mark.parametrize("profile", WAYS)
def test_every_product_takes_an_image_by_each_way_that_it_offers(products, profile, tmp_path):
    for number, method in enumerate(WAYS[profile], 1):
        bmc = products[f"{profile}{number:05d}"]
        there = Endpoint(
            **{key: getattr(bmc, key) for key in ("address", "port", "username", "password", "fingerprint")}
        )
        with ImageServer("127.0.0.1") as server, update.RedfishUpdater(there, publish=server.publish) as updater:
            assert tuple(sorted(updater.methods())) == WAYS[profile]
            row = next(row for row in updater.inventory() if re.search("BIOS|System ROM", f"{row['id']} {row['name']}"))
            content = testing.firmware_image("BIOS", "9.9")
            path = tmp_path / f"{method}.bin"
            path.write_bytes(content)
            image = Local(str(path), len(content), hashlib.sha256(content).hexdigest())
            fields = {"image": {"path": str(path), "url": None}, "activation": "host_reboot", "why": ""}
            step = Step(1, 1, "bios", [row["id"]], row["version"], "9.9", **fields)
            handle = updater.push(step, image, method, lambda: None)
            assert follow(updater, handle)["state"] in ("done", "gone"), profile
        [arrived_there] = products.images()[bmc.name]
        assert (arrived_there["method"], arrived_there["outcome"]) == (method, "written")
        assert arrived_there["components"] == {"BIOS": "9.9"}


def test_method_by_what_is_offered(lab, updater, picture):
    step, _image = picture()
    assert updater.method(step) == "multipart"
    lab.set_behaviour("gpu01", update_methods=["push", "simple"])
    assert updater.method(step) == "push"
    lab.set_behaviour("gpu01", update_methods=["simple"])
    with pytest.raises(Unsupported, match="image_server") as caught:
        updater.method(step)
    assert caught.value.code == "no_update_method"
    step.image["url"] = "http://images/x"
    assert updater.method(step) == "simple"
    step.method = "multipart"
    with pytest.raises(Unsupported):
        updater.method(step)


def test_a_refusal_is_a_refusal(lab, updater, picture):
    step, image = picture()
    lab.set_behaviour("gpu01", faults=[{"method": "POST", "path": ".*update-multipart", "status": 403, "times": 1}])
    with pytest.raises(HttpError):
        updater.push(step, image, "multipart", lambda: None)
    assert arrived(lab) == []


def test_an_answer_lost(lab, updater, picture):
    step, image = picture()
    before = set(updater.tasks())
    lab.set_behaviour("gpu01", answer_lost_after_post=1)
    with pytest.raises(AnswerLost):
        updater.push(step, image, "multipart", lambda: None)
    new = {key: task for key, task in updater.tasks().items() if key not in before}
    assert len(new) == 1 and next(iter(new.values()))["update"] is True
    time.sleep(0.5)
    assert arrived(lab) == [{"BIOS": "2.0"}]  # once


def test_an_upload_cut_in_the_middle(lab, updater, picture):
    step, image = picture(size=8 << 20)
    lab.set_behaviour("gpu01", upload_cut_after=200_000, upload_cut_times=1)
    calls = []
    with pytest.raises(BaremetalError) as caught:
        updater.push(step, image, "multipart", lambda: calls.append(1))
    assert caught.value.code == "upload_broken" and not calls
    assert follow(updater, updater.push(step, image, "multipart", lambda: None))["state"] == "done"
    assert arrived(lab) == [{"BIOS": "2.0"}]


def test_redirected_and_busy(lab, updater, picture):
    step, image = picture()
    lab.set_behaviour("gpu01", redirect_slash=True)
    assert follow(updater, updater.push(step, image, "multipart", lambda: None))["state"] == "done"
    lab.reset_behaviour("gpu01")
    fault = {"method": "POST", "path": ".*update-multipart", "status": 503, "times": 1, "retry_after": 1}
    lab.set_behaviour("gpu01", faults=[fault])
    assert follow(updater, updater.push(step, image, "multipart", lambda: None))["state"] == "done"
    assert arrived(lab) == [{"BIOS": "2.0"}] * 2


def test_a_session_that_ended_meanwhile(lab, updater, picture):
    step, image = picture()
    updater.inventory()
    lab.control.call("drop_sessions", node="gpu01")
    assert follow(updater, updater.push(step, image, "push", lambda: None))["state"] == "done"


def test_fenced_before_a_byte_is_sent(lab, picture):
    def fence():
        raise FencedOut("newer")

    step, image = picture()
    with update.RedfishUpdater(endpoint(lab), fence) as updater, pytest.raises(FencedOut):
        updater.push(step, image, "multipart", lambda: None)
    assert arrived(lab) == []


@pytest.mark.parametrize("form", [{}, {"task_without_location": True}])
def test_tasks_in_both_forms_and_gone(lab, updater, picture, form):
    lab.set_behaviour("gpu01", **form)
    step, image = picture()
    handle = updater.push(step, image, "multipart", lambda: None)
    assert updater.task(handle)["state"] == "running"
    assert follow(updater, handle)["state"] == "done"
    lab.set_behaviour("gpu01", task_monitor_gone=True)
    assert updater.task(handle)["state"] == "gone"
    assert updater.tasks() == {}


def test_a_task_that_fails(lab, updater, picture):
    lab.set_behaviour("gpu01", task_fails=True)
    step, image = picture()
    seen = follow(updater, updater.push(step, image, "multipart", lambda: None))
    assert seen["state"] == "failed" and "flash" in seen["text"]


@pytest.mark.parametrize(
    ("component", "activation", "behaviour"),
    [
        ("BMC", "bmc_reset", {}),
        ("CPLD", "ac_cycle", {}),
        ("FPGA", "aux_cycle", {"aux_power_reset": True}),
    ],
)
def test_resets(lab, updater, picture, component, activation, behaviour):
    lab.set_behaviour("gpu01", **behaviour)
    updater.switch_on()
    step, image = picture(component)
    assert follow(updater, updater.push(step, image, "multipart", lambda: None))["state"] == "done"
    assert versions(updater, [component]) == {component: "1.0"}
    updater.restart(activation)
    lab.wait("gpu01", lambda state: state["firmware"][component] == "2.0")


def test_a_reset_that_is_not_offered(lab, updater):
    lab.set_behaviour("gpu01", aux_power_reset=False)
    with pytest.raises(Unsupported, match="PDU"):
        updater.restart("aux_cycle")


def test_marks_change_with_a_restart(lab, updater):
    updater.switch_on()
    before = updater.marks()
    assert before["host"]
    updater.restart("host_reboot")
    lab.wait("gpu01", lambda state: state["running"])
    assert updater.marks()["host"] != before["host"]


def test_no_session_is_left(lab, picture):
    with update.RedfishUpdater(endpoint(lab)) as updater:
        updater.switch_on()
        step, image = picture()
        follow(updater, updater.push(step, image, "multipart", lambda: None))
        updater.restart("host_reboot")
        updater.inventory()
    assert lab.state("gpu01")["sessions"] == 0


def test_info(lab):
    found = update.info(endpoint(lab))
    assert found["methods"] == ["multipart", "push", "simple"] and found["tasks"] == [] and not found["warnings"]
    assert found["inventory"][0] == {
        "id": "BIOS",
        "name": "BIOS firmware",
        "version": "1.0",
        "updateable": True,
        "staged": None,
    }
    assert found["identity"]["serial"] == lab["gpu01"].serial
    with pytest.raises(Unsupported, match="Redfish only"):
        update.info(endpoint(lab, protocol="ipmi", port=1, fingerprint=None))


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ({"TaskState": "Running"}, "running"),
        ({"TaskState": None}, "running"),
        ({}, "running"),
        ({"TaskState": "Completed", "TaskStatus": "OK"}, "done"),
        ({"TaskState": "Completed", "TaskStatus": "Critical"}, "failed"),
        ({"TaskState": "Exception"}, "failed"),
        ({"TaskState": "UserIntervention"}, "failed"),
        ({"TaskState": "Interrupted"}, "failed"),
        ({"JobState": "Scheduled"}, "staged"),
        ({"TaskState": "Starting", "Oem": {"Dell": {"JobState": "Scheduled"}}}, "staged"),
        ({"JobState": "CompletedWithErrors"}, "failed"),
        ({"JobState": "Completed"}, "done"),
        ({"TaskState": "Running", "PercentComplete": "x", "Messages": [None, {"Message": None}]}, "running"),
    ],
)
def test_task_facts(body, state):
    assert update.task_facts(body)["state"] == state


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ({"Oem": {"AICluster": {"StagedVersion": "2.0"}}}, "2.0"),
        ({"Oem": {"A": {"B": {"PendingVersion": " 3 "}}}}, "3"),
        ({"Oem": None}, None),
        ({"Oem": {"A": {"StagedVersion": ""}}}, None),
        ({}, None),
    ],
)
def test_staged_version(body, version):
    assert update.staged_version(body) == version


def test_a_call_has_the_limit_that_was_given(lab):
    lab.set_behaviour("gpu01", unreachable="silent")
    began = time.monotonic()
    with update.RedfishUpdater(endpoint(lab), call_s=2.0) as updater, pytest.raises(BaremetalError):
        updater.methods()
    assert time.monotonic() - began < 8
