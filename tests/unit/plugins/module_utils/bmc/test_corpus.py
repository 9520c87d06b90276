# Trees recorded from real hardware: the inventory that is read from them, and that no missing or null key anywhere is a traceback.
# The corpus is no part of the project: it is looked for in AICLUSTER_CORPUS, else beside the checkout, and skipped where it is absent.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "support"))
from recorded_trees import ARCHIVE, Carrier, dice_spoiler, read_trees

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import (
    connect,
    operations,
    power,
    redfish,
    transform,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors

pytestmark = [
    pytest.mark.skipif(not ARCHIVE.exists(), reason="the corpus is not here (AICLUSTER_CORPUS)"),
    pytest.mark.slow,
]
ODD = ((None, 0.02), ("text", 0.005), (7, 0.005), ([], 0.005))

# tree: host system's id, (CPUs, DIMMs, GPUs, drives), a network boot target that it offers
TREES = {
    "dell-idrac9-libredfish": ("System.Embedded.1", (2, 16, 1, 3), "pxe"),
    "hpe-ilo-libredfish": ("1", (2, 16, 0, 18), "pxe"),
    "lenovo-xcc-libredfish": ("1", (2, 16, 8, 4), "pxe"),
    "supermicro-libredfish": ("1", (2, 32, 8, 8), "pxe"),
    "nvidia-dgx-h100-viking-libredfish": ("DGX", (2, 32, 8, None), "uefi_http"),
    "nvidia-gb200-libredfish": ("System_0", (2, 2, 4, 9), "pxe"),
    "gigabyte-ami-crayrie": ("Self", (None,) * 4, None),
    "intel-s2600-crayrie": ("QSBP74100021", (None,) * 4, None),
    "supermicro-x10-spyroot": ("1", (None,) * 4, None),
    "nvidia-bluefield-dpu-libredfish": ("Bluefield", (None,) * 4, None),
    "hpe-cray-ex235a-mi250x-crayrie": ("Node0", (None,) * 4, None),
    "dmtf-public-rackmount1": ("437XR1138R2", (None,) * 4, None),
}
NO_HOST = ("hpe-cray-cmm-crayrie",)


@pytest.fixture(scope="module")
def trees():
    """{tree: {normal path: resource}}; read once."""
    return read_trees()


def endpoint(wire):
    return Endpoint(
        "192.0.2.1", username="x", password="y", tls="insecure", name="gpu01", transport=wire, guarded=False
    )


def recorded(tree, spoil=None):
    """An open client whose carrier is a recorded tree."""
    return connect(endpoint(Carrier(tree, spoil)))


@pytest.mark.parametrize("name", TREES)
def test_inventory(trees, name):
    if name not in trees:
        pytest.skip(f"{name} is not in this corpus")
    system_id, counts, target = TREES[name]
    with recorded(trees[name]) as client:
        info = operations.redfish_info(client)
        assert client.system()["Id"] == system_id
        assert info["system"]["serial"] or name.startswith(
            ("hpe-cray", "gigabyte", "intel", "supermicro-x10", "nvidia-bluefield")
        )
        for section, wanted in zip(("processors", "memory", "gpus", "drives"), counts):
            assert wanted is None or len(info[section]) == wanted, section
        assert target is None or target in info["boot"]["targets"]
        unused, allowed = client.reset_action()
        assert allowed is None or "On" in allowed or "ForceOn" in allowed
        if name == "hpe-cray-ex235a-mi250x-crayrie":  # its Boot has an order and no override
            with pytest.raises(errors.Unsupported):
                operations.boot_body(client.boot_place()[0], "pxe", "once", None)
            return
        body = operations.boot_body(client.boot_place()[0], "pxe", "once", None)["Boot"]
        assert ("BootSourceOverrideMode" in body) == bool(
            transform.text(client.system(), "Boot", "BootSourceOverrideMode")
        )


@pytest.mark.parametrize("name", NO_HOST)
def test_a_chassis_controller_has_no_host(trees, name):
    if name not in trees:
        pytest.skip(f"{name} is not in this corpus")
    with recorded(trees[name]) as client, pytest.raises(errors.NotFound):
        client.system()


@pytest.mark.parametrize("name", TREES)
def test_spoiled_resources_are_never_a_traceback(trees, name):
    """Each run takes away, or sets to null, a random tenth of all properties at every depth. Seeds are fixed: a failure can be repeated."""
    if name not in trees:
        pytest.skip(f"{name} is not in this corpus")
    complete = 0
    for seed in range(40):
        spoil = dice_spoiler(random.Random(f"{name}/{seed}"))
        try:
            with recorded(trees[name], spoil) as client:
                info = operations.redfish_info(client)
                assert isinstance(info["gpus"], list)
                client.reset_action()
                complete += 1
                operations.boot_body(client.boot_place()[0], "pxe", "once", "uefi")
        except errors.BaremetalError:
            pass
    assert complete, "no run got to the end: the spoiling says nothing"


# ---- the operations, with the real client on a carrier that answers from a tree ----------------------------------------------------------
def runs(wire):
    """(name, call) of every operation in check mode."""
    where = endpoint(wire)

    def bios():
        with connect(where) as client:
            uri = transform.link(client.system(), "Bios")
            live = client.get(uri).get("Attributes") if uri else None
        live = live if isinstance(live, dict) else {}
        return operations.bios(where, dict(list(live.items())[:5]) or {"Nothing": 1}, check=True)

    yield "info", lambda: operations.info(where)
    for action in operations.POWER_ACTIONS:
        yield (
            f"power {action}",
            lambda action=action: operations.power(where, action, check=True, deadline_s=2, interval=0.01),
        )
    for target in operations.BOOT_TARGETS:
        yield f"boot {target}", lambda target=target: operations.boot(where, target, check=True)

    def order():
        with connect(where) as client:
            present = transform.strings(transform.dig(client.system(), "Boot", "BootOrder"))
        return operations.boot_order(where, present[-1:] or ["disk"], check=True)

    yield "boot order", order
    yield "bios", bios
    for kind in operations.MEDIA_TYPES:
        yield (
            f"media {kind}",
            lambda kind=kind: operations.media(where, "http://192.0.2.9/x.iso", kind=kind, check=True),
        )
    yield "log", lambda: operations.log(where, limit=20)
    yield "reset", lambda: operations.reset(where, check=True)
    yield "account", lambda: operations.account(where, "monitor", "Monitor-1234567", role="Administrator", check=True)
    yield "storage", lambda: operations.storage(where, "boot", level="RAID1", drives=["0", "1"], check=True)
    for option in (
        {"hostname": "x"},
        {"ntp_servers": ["192.0.2.9"], "ntp_enabled": True},
        {"dns_servers": ["192.0.2.9"]},
        {"ipmi_over_lan": False},
        {"secure_boot": True},
        {"event_destinations": [{"destination": "https://192.0.2.9/"}]},
    ):
        yield f"settings {list(option)[0]}", lambda option=option: operations.settings(where, option, check=True)


# tree: operations that this BMC does not offer; everything else must give a plan
NOT_OFFERED = {
    "dell-idrac9-libredfish": {"media floppy", "storage"},
    "hpe-ilo-libredfish": {"settings ntp_servers"},
    "lenovo-xcc-libredfish": {"boot uefi_http", "storage"},
    "supermicro-libredfish": {"storage"},
    "nvidia-dgx-h100-viking-libredfish": {"power nmi", "media cd", "media usb", "media floppy", "storage"},
    "nvidia-gb200-libredfish": {"boot uefi_http", "media floppy", "storage"},
}


@pytest.mark.parametrize("name", NOT_OFFERED)
def test_every_operation_plans(trees, name):
    if name not in trees:
        pytest.skip(f"{name} is not in this corpus")
    wire, refused = Carrier(trees[name]), {}
    for what, call in runs(wire):
        try:
            found = call()
            assert what != "bios" or not found.changed  # what runs already is no change
        except errors.BaremetalError as error:
            refused[what] = str(error)
            assert error.seen is not None or error.wanted is not None
    # which trees offer mains and standby power cycles is said by the tests of those
    assert {what for what in refused if not what.endswith("c_cycle") and "aux" not in what} == NOT_OFFERED[name], (
        refused
    )
    assert not wire.writes


@pytest.mark.parametrize("name", TREES)
def test_no_operation_has_a_traceback_on_spoiled_resources(trees, name, monkeypatch):
    if name not in trees:
        pytest.skip(f"{name} is not in this corpus")
    monkeypatch.setattr(power, "SETTLE_S", 0.01)
    monkeypatch.setattr(redfish, "BACKOFF", ())
    good = 0
    for seed in range(2 if "viking" in name else 6):
        wire = Carrier(trees[name], dice_spoiler(random.Random(f"{name}/operations/{seed}"), 0.03, ODD))
        for what, call in runs(wire):
            if what == "info" and seed:
                continue  # has a test of its own
            try:
                call()
                good += 1
            except errors.BaremetalError as error:
                assert error.message
        assert not wire.writes
    assert good > 20
