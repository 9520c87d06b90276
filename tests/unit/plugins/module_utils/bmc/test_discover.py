# The discover stage with a real registry, a real secret store and simulated BMCs: order, crashes, repeats, and what it refuses.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import os
import re

import pytest
import yaml

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import discover, operations
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.secret_store import SecretStore
from bmc_simulator import testing

from .conftest import endpoint

NODES = ("gpu01", "gpu02", "gpu03")
SITE = "bmc/LAB-test-000{}"


def row(number, **more):
    return {
        "serial": f"LAB-test-000{number}",
        "name": f"gpu0{number}",
        "rack": "r1",
        "slot": f"u0{number}",
        "role": "compute",
        **more,
    }


class World:
    """Three BMCs, a registry, a secret store with the factory account, and the stage over them."""

    def __init__(self, lab, directory):
        self.lab = lab
        self.registry = open_registry(f"sqlite:///{directory}/registry.db", migrate=True)
        self.store = directory / "secrets.yml"
        self.store.write_text(yaml.safe_dump({"factory": {"username": testing.USERNAME, "password": testing.PASSWORD}}))
        self.store.chmod(0o600)
        self.secrets = SecretStore(self.store)
        self.expected = [row(1), row(2)]

    def run(self, check=False, far=None, secrets=None, registry=None, expected=None, **options):
        ranges = [f"{bmc.address}:{bmc.port}" for bmc in self.lab.bmcs]
        options = {
            "ranges": ranges,
            "port": 443,
            "ipmi_port": 0,
            "scan_timeout": 1.0,
            "rotate": True,
            "password_length": 16,
            "approve": "expected",
            "accept_misplaced": False,
            "provision_nic": "nic0",
            "sections": None,
            "site_reference": "bmc/{serial}",
            "factory": ["factory"],
            **options,
        }
        stage = discover.Stage(
            options, registry or self.registry, secrets or self.secrets, far or discover.Here(), "test", check
        )
        return stage.run(self.expected if expected is None else expected)

    def writes(self):
        return {name: len(self.lab.requests(name)) for name in NODES}

    def password(self, number):
        return self.secrets.get(SITE.format(number))["password"]

    def works(self, number, password):
        return operations.can_log_in(endpoint(self.lab, f"gpu0{number}"), testing.USERNAME, password)


@pytest.fixture
def world(tmp_path):
    configs = [testing.node_config(number, bmc={"address": f"127.0.8.1{number}"}) for number in (1, 2, 3)]
    with testing.running(configs) as lab:
        yield World(lab, tmp_path)


# ---- pure -------------------------------------------------------------------------------------------------------------------
def test_passwords():
    found = {discover.generate_password() for _unused in range(200)}
    assert len(found) == 200
    for word in found:
        assert len(word) == 16 and word[0].isalpha()
        assert (
            re.search("[a-z]", word)
            and re.search("[A-Z]", word)
            and re.search("[0-9]", word)
            and re.search("[-_.]", word)
        )
    for length in (8, 21):
        with pytest.raises(errors.InvalidInput):
            discover.generate_password(length)


def test_expected_rows():
    found = discover.read_expected([{"serial": " A1 ", "name": "n1", "protocol": "ipmi", "rack": ""}])
    assert found == {"A1": {"serial": "A1", "name": "n1", "bmc_protocol": "ipmi"}}
    for wrong in (
        [{"name": "n1"}],
        [{"serial": "A1", "colour": "red"}],
        [{"serial": "A1"}, {"serial": "A1"}],
        [{"serial": "A1", "name": "n"}, {"serial": "A2", "name": "n"}],
        [{"serial": "A1", "protocol": "telnet"}],
        ["A1"],
    ):
        with pytest.raises(errors.InvalidInput):
            discover.read_expected(wrong)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"serial": "A1"}, {"serial": "a1"}], "serial is listed twice.*seen: a1, which f line 1 has too"),
        ([{"serial": "A1", "name": "n"}, {"serial": "A2", "name": "n"}], "name is listed twice"),
        (
            [{"serial": "A1", "rack": "r1", "slot": "u1"}, {"serial": "A2", "rack": "r1", "slot": "u1"}],
            "place is listed twice.*rack r1, slot u1",
        ),
        ([{"serial": "A1", "bmc_address": "FD00::1"}, {"serial": "A2", "bmc_address": "fd00:0::1"}], "bmc_address is"),
        (
            [{"serial": "A1", "provision_ip": "10.0.0.1"}, {"serial": "A2", "provision_ip": "10.0.0.1"}],
            "provision_ip is",
        ),
        (
            [{"serial": "A0"}, {"serial": "A2", "provision_ip": "10.0.0.300"}],
            "f line 2, provision_ip.*seen: 10.0.0.300",
        ),
        (
            [{"serial": "A0"}, {"serial": "A2", "provision_ip": "10.0.0.0", "provision_prefix": "24"}],
            "f line 2.*go together",
        ),
        ([{"serial": "A0"}, {"serial": "A2", "protocol": "telnet"}], "f line 2.*redfish or ipmi.*seen: telnet"),
        ([{"serial": "A0"}, {"serial": "A2", "colour": "red"}], "f line 2.*seen: colour"),
        ([{"serial": "A0"}, {"name": "x"}], "f line 2.*no serial"),
        ([{"serial": "A0"}, "A2"], "f line 2.*keys and values"),
    ],
)
def test_a_wrong_row_is_named_by_its_place(rows, words):
    with pytest.raises(errors.InvalidInput, match="(?s)" + words + ".*next: ") as seen:
        discover.read_expected(rows, ["f line 1", "f line 2"])
    assert "f line 2" in str(seen.value)


def test_two_sites_may_have_a_rack_of_one_name():
    rows = [{"serial": f"A{site}", "site": site, "rack": "r1", "slot": "u1"} for site in ("s1", "s2")]
    assert len(discover.read_expected(rows)) == 2


def test_parts_with_one_label_twice_are_two_parts():
    found = discover.parts_of(
        {"nics": [{"slot": "1", "mac": "a"}, {"slot": "1", "mac": "b"}], "gpus": [{"slot": "1", "model": "H100"}]}
    )
    assert [(part["kind"], part["slot"]) for part in found] == [("nic", "1"), ("nic", "1#2"), ("gpu", "1")]


def test_facts_leave_out_what_changes_by_itself():
    facts = discover.facts_of(
        {
            "system": {"serial": "A", "power": "on", "health": "OK"},
            "boot": {"target": "pxe"},
            "warnings": ["x"],
            "gpus": [{"slot": "1"}],
        }
    )
    assert facts == {"system": {"serial": "A"}, "gpus": [{"slot": "1"}]}


# ---- a server that nobody listed ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("check", [True, False])
def test_nothing_is_written_to_a_server_that_nobody_listed(world, check):
    """A factory password does not make it ours: it is recorded as unexpected, with the reason and what to do."""
    report = world.run(check=check)
    assert world.writes()["gpu03"] == 0 and world.works(3, testing.PASSWORD)
    assert not world.secrets.has(SITE.format(3)) and not report["problems"]
    assert [entry["serial"] for entry in report["unexpected"]] == ["LAB-test-0003"]
    assert "127.0.8.13: password" not in report["diff"]["after"] and "127.0.8.12: password" in report["diff"]["after"]
    [text] = [text for text in report["warnings_of_discovery"] if "factory password" in text]
    assert text.startswith("lab-test-0003: serial LAB-test-0003 at 127.0.8.13") and "add it there, or run with" in text
    [bmc] = [bmc for bmc in report["bmcs"] if bmc["serial"] == "LAB-test-0003"]
    assert bmc["state"] == "manageable" and "not in the expected-servers list" in bmc["pending"]
    if check:
        return
    assert world.registry.node("lab-test-0003")["bmc_credential"] == "factory"
    assert not world.run()["changed"]
    world.expected.append(row(3))
    assert not world.run()["problems"]
    assert world.registry.node("gpu03")["state"] == "available"
    assert world.works(3, world.password(3)) and not world.works(3, testing.PASSWORD)


def test_with_everybody_approved_an_unlisted_server_is_taken_over(world):
    assert not world.run(approve="all")["problems"]
    assert world.works(3, world.password(3)) and not world.works(3, testing.PASSWORD)


def test_a_demanded_password_change_is_made_on_listed_servers_only(world):
    """Before the change no serial is told: only the list's bmc_address can say that it is a listed server."""
    world.lab.set_behaviour("gpu01", password_change_required=True)
    for check in (True, False, False):
        report = world.run(check=check)
        assert [(problem["code"], problem["address"]) for problem in report["problems"]] == [
            ("not_listed", "127.0.8.11")
        ]
        assert "next: write bmc_address 127.0.8.11 into the row" in report["problems"][0]["msg"]
    assert not report["changed"] and world.writes()["gpu01"] == 0
    assert [entry["serial"] for entry in report["missing"]] == ["LAB-test-0001"]
    assert not world.run(approve="all")["problems"]
    assert world.registry.node("gpu01")["state"] == "available"


def test_one_serial_on_two_boards_that_demanded_a_new_password_is_refused_for_both(world):
    """Their serials are told only after the change: none of the two may take the other's record."""

    class Twins(discover.Here):
        def visit(self, targets):
            answers = super().visit(targets)
            for answer in answers:
                if answer.get("info"):
                    answer["info"]["system"]["serial"] = "S-1"
            return answers

    for name in NODES[:2]:
        world.lab.set_behaviour(name, password_change_required=True)
    report = world.run(far=Twins(), expected=[], ranges=[f"{bmc.address}:{bmc.port}" for bmc in world.lab.bmcs[:2]])
    assert [problem["code"] for problem in report["problems"]] == ["double_serial"] * 2
    assert world.registry.nodes() == []


# ---- one BMC's oddness ----------------------------------------------------------------------------------------------------------
class Odd(discover.Here):
    """Changes what the visit of gpu02 says."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def visit(self, targets):
        answers = super().visit(targets)
        for answer in answers:
            if (answer.get("info") or {}).get("system", {}).get("serial") == "LAB-test-0002":
                self.change(answer["info"])
        return answers


def test_nuls_in_texts_of_a_bmc_are_left_out(world):
    far = Odd(
        lambda info: info["memory"].__setitem__(0, {"slot": "DIMM\x001", "serial": "ABC\x00\x00", "model": "\ud800M"})
    )
    report = world.run(far=far)
    assert not report["problems"]
    [part] = [part for part in world.registry.node("gpu02")["parts"] if part["slot"] == "DIMM1"]
    assert (part["serial"], part["model"]) == ("ABC", "M")
    assert not world.run(far=far)["changed"]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda info: info.__setitem__("memory", ["DIMM1"]),
        lambda info: info.__setitem__("location", "r1"),
        lambda info: info.__setitem__("system", ["LAB-test-0002"]),
        lambda info: info["system"].__setitem__("serial", "S" * 300),
    ],
)
def test_an_unheard_of_inventory_is_that_bmcs_problem_only(world, change, check):
    report = world.run(far=Odd(change), check=check)
    assert [problem["address"] for problem in report["problems"]] == ["127.0.8.12"]
    assert "127.0.8.12" in report["problems"][0]["msg"] or "serial" in report["problems"][0]["msg"]
    assert "next: " in report["problems"][0]["msg"]
    states = {bmc["serial"]: bmc["state"] for bmc in report["bmcs"]}
    assert states["LAB-test-0001"] == "available" and states["LAB-test-0003"] == "manageable"
    if not check:
        assert world.registry.node("gpu01")["state"] == "available"


@pytest.mark.parametrize("call", ["save_node", "record_evidence", "transition"])
def test_a_registry_that_refuses_one_node_ends_nothing(world, monkeypatch, call):
    world.run(factory=["factroy"], expected=[row(number, bmc_address=f"127.0.8.1{number}") for number in (1, 2)])
    real = getattr(world.registry, call)

    def odd(serial, *arguments, **columns):
        if serial == "LAB-test-0002":
            raise ValueError("unheard of")
        return real(serial, *arguments, **columns)

    monkeypatch.setattr(world.registry, call, odd)
    report = world.run()
    assert {problem["code"] for problem in report["problems"]} == {"internal"}
    assert report["reasons"].keys() == {"gpu02"} and "ValueError: unheard of" in report["problems"][0]["msg"]
    assert world.registry.node("gpu01")["state"] == "available"


def test_a_store_that_refuses_one_entry_ends_nothing(world):
    class Refusing(SecretStore):
        def add(self, reference, values):
            if reference == SITE.format(2):
                raise errors.InvalidInput("no such name", thing=reference)
            return super().add(reference, values)

    report = world.run(secrets=Refusing(world.store))
    assert [problem["host"] for problem in report["problems"]] == ["gpu02"] and world.writes()["gpu02"] == 0
    assert world.registry.node("gpu01")["state"] == "available"


# ---- where a BMC is recorded ----------------------------------------------------------------------------------------------------
def test_a_bmc_at_another_port_than_was_asked_is_not_lost(world):
    world.run()
    report = world.run(ranges=["127.0.8.11-127.0.8.13"], port=9)
    assert not report["problems"] and not report["changed"] and report["lost"] == []
    texts = [text for text in report["warnings_of_discovery"] if "was not looked at" in text]
    assert len(texts) == 3
    assert texts[0].startswith(
        f"gpu01: its BMC was not looked at: it is recorded at 127.0.8.11 port {world.lab['gpu01'].port}, and port 9"
    )
    assert world.registry.evidence("gpu01") == []


def test_a_bmc_address_may_be_a_name(world, monkeypatch):
    known = {"bmc1.example": "127.0.8.11"}
    monkeypatch.setattr(discover.scan, "address_of", known.get)
    port = world.lab["gpu01"].port
    world.run()
    world.registry.save_node("LAB-test-0001", "test", bmc_address="BMC1.example")
    ranges = [f"bmc1.example:{port}", f"127.0.8.12:{world.lab['gpu02'].port}"]
    for check in (True, False):
        report = world.run(ranges=ranges, check=check)
        assert not report["problems"] and not report["changed"], report
        assert [bmc["serial"] for bmc in report["bmcs"]] == ["LAB-test-0001", "LAB-test-0002"]
    assert world.registry.node("gpu01")["bmc_address"] == "BMC1.example"


def test_a_name_without_an_address_is_that_nodes_problem(world, monkeypatch):
    monkeypatch.setattr(discover.scan, "address_of", lambda name: None)
    world.run()
    world.registry.save_node("LAB-test-0001", "test", bmc_address="bmc1.example")
    ranges = ["bmc1.example:443", f"127.0.8.12:{world.lab['gpu02'].port}"]
    planned = world.run(ranges=ranges, check=True)
    report = world.run(ranges=ranges)
    for one in (planned, report):
        assert [(problem["code"], problem["host"]) for problem in one["problems"]] == [("name_unknown", "gpu01")]
        assert [bmc["serial"] for bmc in one["bmcs"]] == ["LAB-test-0002"]
    assert world.registry.node("gpu01")["state"] == "available"
    assert [entry["code"] for entry in world.registry.why("gpu01")][0] == "evidence_could_not_test"
    assert not world.run(ranges=ranges)["changed"]
    with pytest.raises(errors.InvalidInput, match="no address range"):
        world.run(ranges=["bmc7.example"])


# ---- the stage ----------------------------------------------------------------------------------------------------------------
def test_from_nothing_to_available_and_unchanged_the_second_time(world):
    report = world.run()
    assert report["changed"] and not report["problems"]
    shown = [
        line for side in ("before", "after") for line in report["diff"][side].splitlines() if "gpu01: state" in line
    ]
    assert shown == ['gpu01: state: "available"'], "no state on the way is in the difference"
    states = {node["name"]: node["state"] for node in world.registry.nodes()}
    assert states == {"gpu01": "available", "gpu02": "available", "lab-test-0003": "manageable"}
    assert [entry["serial"] for entry in report["unexpected"]] == ["LAB-test-0003"]
    assert "not in the expected-servers list" in next(
        entry["pending"] for entry in report["bmcs"] if entry["serial"] == "LAB-test-0003"
    )
    for number in (1, 2):
        assert world.works(number, world.password(number)) and not world.works(number, testing.PASSWORD)
    assert world.password(1) != world.password(2)
    node = world.registry.node("gpu01")
    assert (
        node["bmc_credential"] == SITE.format(1)
        and node["bmc_fingerprint"] == world.lab["gpu01"].fingerprint.replace(":", "").lower()
    )
    assert node["provision_mac"] == "52:54:00:77:00:01" and node["bmc_address"] == "127.0.8.11"
    assert (
        sum(part["kind"] == "gpu" for part in node["parts"]) == 8
        and node["facts"]["system"]["serial"] == "LAB-test-0001"
    )
    text = str(report) + str([world.registry.audit_rows(name) for name in ("gpu01", "gpu02")])
    assert not any(world.password(number) in text for number in (1, 2)) and testing.PASSWORD not in text

    before, secrets, rows = world.writes(), world.store.read_text(), len(world.registry.audit_rows("gpu01"))
    operations.power(endpoint(world.lab, "gpu01", password=world.password(1)), "on", interval=0.05)
    before["gpu01"] += 1
    again = world.run()
    assert not again["changed"] and not again["problems"] and again["diff"] == {"before": "", "after": ""}
    assert (
        world.writes() == before
        and world.store.read_text() == secrets
        and len(world.registry.audit_rows("gpu01")) == rows
    )
    assert all(world.lab.state(name)["sessions"] == 0 for name in NODES)


def test_check_mode_writes_nothing_anywhere(world):
    audit, secrets = world.registry.verify_audit()["rows"], world.store.read_text()
    report = world.run(check=True)
    assert report["changed"] and len(report["bmcs"]) == 3 and report["diff"]["after"]
    assert world.writes() == dict.fromkeys(NODES, 0) and world.store.read_text() == secrets
    assert (
        world.registry.nodes() == []
        and world.registry.expected() == []
        and world.registry.verify_audit()["rows"] == audit
    )
    assert all(world.works(number, testing.PASSWORD) for number in (1, 2, 3))


class Stop(BaseException):
    pass


class StopAfterStoring(SecretStore):
    def add(self, reference, values):
        super().add(reference, values)
        raise Stop


class StopBeforeSetting(discover.Here):
    def rotate(self, targets):
        raise Stop


class StopAfterSetting(discover.Here):
    def rotate(self, targets):
        super().rotate(targets)
        raise Stop


@pytest.mark.parametrize("where", ["stored", "recorded", "set"])
def test_a_crash_loses_no_password(world, where):
    """Killed between any two of: stored, recorded, set. The next run gets in, and the password that was stored is the one that is used."""
    world.expected = [row(1), row(2), row(3)]
    with pytest.raises(Stop):
        if where == "stored":
            world.run(secrets=StopAfterStoring(world.store))
        else:
            world.run(far=StopBeforeSetting() if where == "recorded" else StopAfterSetting())
    stored = {reference: entry["password"] for reference, entry in yaml.safe_load(world.store.read_text()).items()}
    report = world.run()
    assert not report["problems"] and report["changed"]
    for number in (1, 2, 3):
        assert world.works(number, world.password(number))
        assert stored.get(SITE.format(number), world.password(number)) == world.password(number)
    assert not world.run()["changed"]
    assert all(account["locked"] is False for name in NODES for account in world.lab.state(name)["accounts"])


def test_two_controllers_at_once_agree_on_one_password(world):
    """Both log in with the factory account; the second one sets its password when the first one has already set it."""
    world.expected = [row(1), row(2), row(3)]

    class Late(discover.Here):
        def rotate(self, targets):
            assert not world.run()["problems"]  # the other controller does all of its work now
            return super().rotate(targets)

    report = world.run(far=Late())
    assert not report["problems"], report["problems"]
    assert all(world.works(number, world.password(number)) for number in (1, 2, 3))


def test_a_lost_registry_is_rebuilt_from_the_list_and_the_store(world, tmp_path):
    world.run(expected=[row(number, bmc_address=f"127.0.8.1{number}") for number in (1, 2, 3)])
    (tmp_path / "second").mkdir()
    second = open_registry(f"sqlite:///{tmp_path}/second/registry.db", migrate=True)
    report = world.run(
        registry=second, expected=[row(number, bmc_address=f"127.0.8.1{number}") for number in (1, 2, 3)]
    )
    assert not report["problems"] and {node["state"] for node in second.nodes()} == {"available"}


def test_a_wrong_factory_password_is_that_nodes_problem_only(world):
    operations.account(endpoint(world.lab, "gpu02"), testing.USERNAME, "Somebody-elses-1")
    report = world.run(expected=[row(1), row(2, bmc_address="127.0.8.12")])
    assert [problem["code"] for problem in report["problems"]] == ["authentication_failed"]
    assert report["problems"][0]["host"] == "gpu02" and report["reasons"].keys() == {"gpu02"}
    assert report["failing"] == ["gpu02", "gpu01"]
    assert world.registry.node("gpu01")["state"] == "available"
    assert (
        world.registry.node("gpu02")["state"] == "verifying_failed"
        and world.registry.node("gpu02")["bmc_fingerprint"] is None
    )
    assert "refused the user name or password" in str(world.registry.why("gpu02"))
    assert [entry["serial"] for entry in report["missing"]] == ["LAB-test-0002"]
    operations.account(endpoint(world.lab, "gpu02", password="Somebody-elses-1"), testing.USERNAME, testing.PASSWORD)
    assert not world.run(expected=[row(1), row(2, bmc_address="127.0.8.12")])["problems"]
    assert world.registry.node("gpu02")["state"] == "available"


def test_a_listed_bmc_that_does_not_answer(world):
    ranges = [f"{bmc.address}:{bmc.port}" for bmc in world.lab.bmcs] + ["127.0.8.19:9"]
    rows = [row(1), row(2), row(9, bmc_address="127.0.8.19")]
    report = world.run(expected=rows, ranges=ranges)
    assert [(problem["code"], problem["host"]) for problem in report["problems"]] == [("unreachable", "gpu09")]
    assert [entry["serial"] for entry in report["missing"]] == ["LAB-test-0009"]
    assert "does not answer" in str(world.registry.why("gpu09"))
    assert not world.run(expected=rows, ranges=ranges)["changed"]


def test_another_certificate_gets_no_password(world):
    world.run()
    world.registry.save_node("LAB-test-0001", "test", bmc_fingerprint="ab" * 32)
    before = world.lab.stats("gpu01")["requests"]
    report = world.run()
    assert [problem["code"] for problem in report["problems"]] == ["certificate_changed"] and report["problems"][0][
        "host"
    ] == "gpu01"
    assert (
        world.lab.stats("gpu01")["requests"] == before + 1
    )  # the scan's question for the service root, which carries no credentials


def test_a_bmc_that_demands_a_new_password(world):
    world.lab.set_behaviour("gpu01", password_change_required=True)
    world.expected = [row(1, bmc_address="127.0.8.11"), row(2)]
    report = world.run()
    assert not report["problems"], report["problems"]
    assert world.registry.node("gpu01")["state"] == "available"
    secret = world.secrets.get(world.registry.node("gpu01")["bmc_credential"])
    assert world.works(1, secret["password"])
    assert not world.run()["changed"]


def test_a_node_that_is_driven_by_ipmi(tmp_path):
    """Inventory and rotation by Redfish, power by IPMI with the same new account; listed as IPMI, so the account must work there too."""
    config = testing.node_config(1, bmc={"address": "127.0.8.31", "protocols": ["redfish", "ipmi"]})
    with testing.running([config]) as lab:
        world = World(lab, tmp_path)
        there = lab["gpu01"]
        rows = [row(1, protocol="ipmi")]
        report = world.run(expected=rows, ipmi_port=there.ipmi_port)
        assert not report["problems"] and report["bmcs"][0]["protocols"] == ["redfish", "ipmi"]
        node = world.registry.node("gpu01")
        assert (node["bmc_protocol"], node["bmc_port"], node["state"]) == ("ipmi", there.ipmi_port, "available")
        assert len(node["facts"]["gpus"]) == 8
        by_ipmi = endpoint(lab, protocol="ipmi", port=there.ipmi_port, password=world.password(1), fingerprint=None)
        assert operations.power(by_ipmi, "on", interval=0.1).changed and lab.state("gpu01")["power"] == "On"
        assert not world.run(expected=rows, ipmi_port=there.ipmi_port)["changed"]
        assert {entry["via"] for entry in lab.requests("gpu01")} == {"redfish", "ipmi"}


def test_wrong_place_waits(world):
    rows = [row(1, slot="u40"), row(2)]
    report = world.run(expected=rows)
    if not report["misplaced"]:
        pytest.skip("this simulator does not tell the place of its servers")
    assert report["misplaced"][0]["differences"] == {"slot": ["u40", "u01"]}
    assert world.registry.node("gpu01")["state"] == "manageable"
    assert "wrong place" in next(entry["pending"] for entry in report["bmcs"] if entry["name"] == "gpu01")
    world.run(expected=rows, accept_misplaced=True)
    assert world.registry.node("gpu01")["state"] == "available"


def test_one_serial_on_two_boards_is_refused_for_both():
    entries = [
        {
            "find": {"address": address},
            "info": {"system": {"serial": "S"}},
            "serial": "S",
            "row": None,
            "known": None,
            "changed": False,
            "rotation": True,
        }
        for address in ("a", "b")
    ]
    stage = discover.Stage({}, None, None, None, "test")
    stage._refuse_doubles(entries)
    assert [problem["code"] for problem in stage.problems] == ["double_serial"] * 2 and not any(
        "rotation" in entry for entry in entries
    )


def test_without_rotation_nodes_wait_with_the_factory_account(world):
    report = world.run(rotate=False)
    assert not report["problems"] and world.writes() == dict.fromkeys(NODES, 0)
    node = world.registry.node("gpu01")
    assert node["bmc_credential"] == "factory"


def test_without_a_list_everybody_is_welcome(world):
    world.run(expected=[])
    assert {node["state"] for node in world.registry.nodes()} == {"available"}


def test_later_states_are_only_refreshed(world):
    world.run()
    world.registry.begin("gpu01", "deploy", actor="test")
    report = world.run()
    assert world.registry.node("gpu01")["state"] == "deploying" and not report["changed"]


def test_the_store_is_not_readable_by_others(world):
    os.chmod(world.store, 0o644)
    with pytest.raises(errors.Refused):
        world.run()
    assert world.writes() == dict.fromkeys(NODES, 0)


def test_a_lost_store_ends_the_run_before_any_work(world, tmp_path):
    """A store that is gone or cannot be read is no BMC's fault: no node moves, nothing is asked."""
    world.run()
    for number in (1, 2, 3):
        world.registry.save_node(f"S-{number}", "test", name=f"early{number}", bmc_address=f"127.0.8.1{number + 3}")
    states = {node["name"]: node["state"] for node in world.registry.nodes()}
    requests = {name: world.lab.stats(name)["requests"] for name in NODES}
    kept = world.store.read_bytes()
    for spoil in (
        world.store.unlink,
        lambda: world.store.write_bytes(b"- no store"),
        lambda: world.store.write_bytes(b"\xff"),
    ):
        spoil()
        for check in (True, False):
            with pytest.raises(errors.BaremetalError, match=f"{world.store}.*next: "):
                world.run(check=check)
        world.store.touch(0o600)
        world.store.write_bytes(kept)
    assert {node["name"]: node["state"] for node in world.registry.nodes()} == states
    assert {name: world.lab.stats(name)["requests"] for name in NODES} == requests
    assert not world.run()["changed"]


def test_an_entry_that_is_no_account_ends_the_run_when_it_is_the_factorys(world):
    world.store.write_text(yaml.safe_dump({"factory": {"user": "admin", "password": "x"}}))
    with pytest.raises(errors.InvalidInput, match="entry factory.*no username.*next: complete the entry `factory`"):
        world.run()
    assert world.registry.nodes() == []


def test_a_missing_entry_moves_no_node(world):
    """Nothing was tried, so nothing is known about the BMC: a listed node stays registered, and why tells what is missing."""
    rows = [row(number, bmc_address=f"127.0.8.1{number}") for number in (1, 2, 3)]
    report = world.run(expected=rows, factory=["factroy"])
    assert {problem["code"] for problem in report["problems"]} == {"no_credential"}
    assert {node["state"] for node in world.registry.nodes()} == {"registered"}
    assert "no credential to try" in world.registry.why("gpu01")[0]["text"]
    assert any("factroy" in text for text in report["warnings_of_discovery"])
    assert not world.run(expected=rows, factory=["factroy"])["changed"]
    assert not world.run(expected=rows)["problems"]
    assert [entry["code"] for entry in world.registry.why("gpu01")] == ["state_available"]


def test_the_own_entry_of_a_node_that_is_lost_is_named(world):
    world.run()
    world.secrets.remove(SITE.format(1))
    report = world.run()
    assert [problem["code"] for problem in report["problems"]] == ["secret_not_found"]
    first = world.registry.why("gpu01")[0]
    assert first["code"] == "evidence_could_not_test" and SITE.format(1) in first["next_step"]
    assert world.registry.node("gpu01")["state"] == "available"


@pytest.mark.parametrize(
    ("state", "fault"),
    [("available", "dead"), ("available", "password"), ("available", "certificate"), ("deploying", "dead")],
)
def test_a_lost_bmc_is_on_record_in_every_state_and_moves_nobody(world, state, fault):
    world.run()
    if state == "deploying":
        world.registry.begin("gpu01", "deploy", actor="test")
    there = world.lab["gpu01"]
    if fault == "dead":
        world.registry.save_node("LAB-test-0001", "test", bmc_port=9)
    rows = len(world.registry.audit_rows("gpu01"))
    kept, pin = world.secrets.get(SITE.format(1)), world.registry.node("gpu01")["bmc_fingerprint"]
    options, wanted = {}, [row(1, bmc_address="127.0.8.11"), row(2)]
    if fault == "dead":
        options = {"ranges": [f"127.0.8.11:{9}", *(f"{bmc.address}:{bmc.port}" for bmc in world.lab.bmcs[1:])]}
    elif fault == "password":
        world.secrets.put(SITE.format(1), {**kept, "password": "Somebody-elses-1"})
    else:
        world.registry.save_node("LAB-test-0001", "test", bmc_fingerprint="ab" * 32)
    planned = world.run(check=True, expected=wanted, **options)
    assert planned["changed"] and "gpu01: bmc_access" in planned["diff"]["after"]
    report = world.run(expected=wanted, **options)
    assert [problem["host"] for problem in report["problems"]] == ["gpu01"]
    assert world.registry.node("gpu01")["state"] == state
    [item] = [item for item in world.registry.evidence("gpu01") if item["check"] == "bmc_access"]
    assert item["outcome"] == "fail" and item["detail"]["next_step"]
    assert item["value"] in " ".join(entry["text"] for entry in world.registry.why("gpu01"))
    assert not world.run(expected=wanted, **options)["changed"]  # the same reason is no news

    world.secrets.put(SITE.format(1), kept)
    world.registry.save_node("LAB-test-0001", "test", bmc_fingerprint=pin)
    world.registry.save_node("LAB-test-0001", "test", bmc_port=there.port)
    well = world.run(expected=wanted)
    assert well["changed"] and not well["problems"]
    [item] = [item for item in world.registry.evidence("gpu01") if item["check"] == "bmc_access"]
    assert item["outcome"] == "pass" and world.registry.node("gpu01")["state"] == state
    assert "evidence_fail" not in [entry["code"] for entry in world.registry.why("gpu01")]
    assert not world.run(expected=wanted)["changed"] and len(world.registry.audit_rows("gpu01")) > rows


def test_the_reason_of_a_failed_login_is_the_newest_one(world):
    rows, ranges = [row(1, bmc_address="127.0.8.11"), row(2)], [f"127.0.8.11:{9}"]
    world.run(expected=rows, ranges=ranges)
    assert "does not answer" in str(world.registry.why("gpu01"))
    operations.account(endpoint(world.lab, "gpu01"), testing.USERNAME, "Somebody-elses-1")
    assert world.run(expected=rows)["changed"]
    first, second = world.registry.why("gpu01")
    assert first["code"] == "verifying_failed" and "discover playbook" in first["next_step"]
    assert (
        "refused the user name or password" in second["text"]
        and "does not answer" not in first["text"] + second["text"]
    )


def test_a_run_without_the_file_is_as_one_with_it(tmp_path):
    """What the list says of a server that comes later counts also when the file is left out of that run."""
    config = testing.node_config(1, bmc={"address": "127.0.8.31", "protocols": ["redfish", "ipmi"]})
    full = row(
        1, protocol="ipmi", bmc_address="127.0.8.31", provision_mac="52:54:00:77:02:01", provision_ip="10.77.1.11",
        provision_prefix="24", ansible_host="10.9.9.9",
    )  # fmt: skip
    with testing.running([config]) as lab:
        world = World(lab, tmp_path)
        ipmi_port = lab["gpu01"].ipmi_port
        world.registry.save_expected(list(discover.read_expected([full]).values()), "test")
        world.expected = None
        silent = world.run(ranges=["127.0.8.31:9"], ipmi_port=0)
        assert [problem["host"] for problem in silent["problems"]] == ["gpu01"]  # the address came from the kept list
        report = world.run(ipmi_port=ipmi_port)
        assert not report["problems"]
        node = world.registry.node("gpu01")
        assert {
            key: node[key]
            for key in ("bmc_protocol", "provision_mac", "provision_ip", "provision_prefix", "ansible_host")
        } == {
            "bmc_protocol": "ipmi",
            "provision_mac": "52:54:00:77:02:01",
            "provision_ip": "10.77.1.11",
            "provision_prefix": 24,
            "ansible_host": "10.9.9.9",
        }
        assert not world.run(ipmi_port=ipmi_port)["changed"]
        assert not world.run(ipmi_port=ipmi_port, expected=[full])["changed"]


def test_a_retired_server_that_answers_is_left_alone(world):
    world.run()
    world.registry.transition(
        "gpu01", "available", "retired", "test", "sold", consent=world.registry.node("gpu01")["serial"]
    )
    writes, rows = world.writes(), len(world.registry.audit_rows("LAB-test-0001"))
    report = world.run()  # the list still asks for it
    assert [problem["code"] for problem in report["problems"]] == ["node_retired"]
    report = world.run(expected=[row(2)])
    assert not report["problems"] and any("is retired" in text for text in report["warnings_of_discovery"])
    assert world.writes() == writes and len(world.registry.audit_rows("LAB-test-0001")) == rows
    assert world.registry.node("LAB-test-0001")["state"] == "retired"


def test_two_servers_in_one_place_wait_until_one_is_corrected(world):
    """The list cannot say so, but a record can: another server was registered by hand into the first one's place."""
    world.registry.save_node("S-9", "test", name="other", rack="r1", slot="u01")
    report = world.run()
    assert {node["name"]: node["state"] for node in world.registry.nodes(names=["gpu01", "gpu02"])} == {
        "gpu01": "manageable",
        "gpu02": "available",
    }
    assert any("gpu01, other: recorded in the same place" in text for text in report["warnings_of_discovery"])
    assert "other stands there too" in next(entry["pending"] for entry in report["bmcs"] if entry["name"] == "gpu01")
    world.registry.save_node("S-9", "test", slot="u09")
    world.run()
    assert world.registry.node("gpu01")["state"] == "available"


@pytest.mark.parametrize("check", [True, False])
def test_a_password_length_that_cannot_work_is_refused_before_any_work(world, check):
    with pytest.raises(errors.InvalidInput, match="wanted: 12 to 20; seen: 4; next: correct discover_password_length"):
        world.run(check=check, password_length=4)
    assert world.registry.nodes() == [] and not any(world.lab.stats(name).get("requests") for name in NODES)


def test_check_mode_shows_the_rows_that_the_run_writes(world):
    planned = world.run(check=True)["diff"]["after"]
    done = world.run()["diff"]["after"]
    for name in ("gpu01", "gpu02", "lab-test-0003"):
        for thing in (
            "name",
            "rack",
            "bmc_address",
            "bmc_credential",
            "provision_mac",
            "part gpu GPU0",
            "facts.system",
        ):
            if f"{name}: {thing}" in done:
                assert f"{name}: {thing}" in planned, (name, thing)
    assert 'gpu01: name: "gpu01"' in planned and "gpu01: facts.system" in planned
