# Nodes: create, update, parts, expected servers, bare transitions.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import threading

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import nodes, open_registry, transitions

ME = "tester@here"
GPU = {"kind": "gpu", "slot": "0", "model": "H100", "serial": "G-1", "firmware": "96.1"}
DISK = {"kind": "drive", "slot": "0", "model": "PM9", "serial": "D-1", "size_bytes": 10}


def test_plan_and_save_agree_and_the_second_time_changes_nothing(registry):
    columns = {"name": "gpu01", "rack": "r1", "bmc_port": "443", "parts": [GPU, DISK], "facts": {"cpus": 2}}
    plan = registry.plan_node("S1", **columns)
    assert plan.changed
    with pytest.raises(errors.NotFound):
        registry.node("S1")
    saved = registry.save_node("S1", ME, **columns)
    assert saved.diff() == plan.diff()
    assert not registry.plan_node("S1", **columns).changed
    rows = registry.verify_audit()["rows"]
    before = registry.node("S1")["last_seen"]
    assert not registry.save_node("S1", ME, **columns).changed
    assert registry.node("S1")["last_seen"] > before
    assert registry.verify_audit()["rows"] == rows


def test_a_node_is_found_by_name_and_by_serial(registry):
    registry.save_node("S1", ME, name="gpu01")
    assert registry.node("gpu01") == registry.node("S1")
    with pytest.raises(errors.NotFound, match="gpu09"):
        registry.node("gpu09")


def test_only_some_columns_are_read_where_only_they_are_asked_for(registry):
    registry.save_node("S1", ME, name="gpu01", rack="r1", facts={"many": "x" * 1000})
    assert registry.nodes(only=("rack",)) == [{"serial": "S1", "name": "gpu01", "rack": "r1"}]
    assert registry.nodes(names="gpu01", only=("name",)) == [{"serial": "S1", "name": "gpu01"}]
    with pytest.raises(errors.InvalidInput, match="no such column.*colour"):
        registry.nodes(only=("colour",))


def test_only_given_columns_are_touched(registry):
    registry.save_node("S1", ME, name="gpu01", rack="r1", slot="u1")
    plan = registry.save_node("S1", ME, slot="u2")
    assert plan.diff() == {"before": 'slot: "u1"\n', "after": 'slot: "u2"\n'}
    assert registry.node("S1")["rack"] == "r1"


def test_a_new_node_starts_registered_or_manageable_and_an_old_one_keeps_its_state(registry):
    registry.save_node("S1", ME, name="gpu01")
    assert registry.node("S1")["state"] == "registered"
    registry.save_node("S2", ME, name="gpu02", state="manageable")
    registry.transition("S2", "manageable", "available", ME)
    assert not registry.save_node("S2", ME, name="gpu02", state="manageable").changed
    assert registry.node("S2")["state"] == "available"
    with pytest.raises(errors.InvalidInput):
        registry.save_node("S3", ME, name="gpu03", state="active")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("provision_mac", "52:54"),
        ("name", "GPU 01"),
        ("name", ""),
        ("bmc_port", 70000),
        ("bmc_port", "x"),
        ("bmc_port", True),
        ("bmc_port", "443; rm"),
        ("bmc_protocol", "ssh"),
        ("bmc_fingerprint", "abc"),
        ("bmc_address", "10.0.0.300"),
        ("bmc_address", "10.0.0"),
        ("bmc_address", "https://10.0.0.1"),
        ("bmc_address", "10.0.0.1:443"),
        ("bmc_address", "[fd00::1]"),
        ("bmc_address", "fd00::1::2"),
        ("bmc_address", "bmc 1"),
        ("bmc_address", "-oProxyCommand=x"),
        ("bmc_address", "0.0.0.0"),
        ("ansible_host", "a b"),
        ("ansible_host", "-oProxyCommand=x"),
        ("provision_ip", "10.0.0.0/24"),
        ("provision_ip", "gpu01"),
        ("provision_ip", "10.0.0.256"),
        ("provision_ip", "224.0.0.1"),
        ("provision_ip", 10),
        ("provision_prefix", 0),
        ("provision_prefix", 129),
        ("provision_prefix", "24.5"),
        ("provision_mac", "ff:ff:ff:ff:ff:ff"),
        ("provision_mac", "01:00:5e:00:00:01"),
        ("rack", "r1\nr2"),
        ("rack", ["r1"]),
        ("maintenance", "yes"),
        ("state_since", "2020"),
        ("parts", [{"kind": "gpu"}]),
        ("parts", [GPU, GPU]),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_written(registry, column, value):
    with pytest.raises(errors.InvalidInput):
        registry.save_node("S1", ME, **{"name": "gpu01", column: value})
    assert registry.nodes() == []


def test_a_refused_value_names_column_wanted_seen_and_next(registry):
    with pytest.raises(errors.InvalidInput) as seen:
        registry.save_node("S1", ME, name="gpu01", bmc_address="10.0.0.300")
    assert str(seen.value) == (
        "S1: bmc_address: bmc_address cannot be right; wanted: an IPv4 or IPv6 address or a host name, without scheme, port and brackets; "
        "seen: 10.0.0.300; next: correct bmc_address of this node"
    )


@pytest.mark.parametrize(
    ("address", "prefix"), [("10.0.0.5", 33), ("10.0.0.0", 24), ("10.0.0.255", 24), ("fd00::", 64)]
)
def test_address_and_prefix_must_go_together_also_when_given_one_by_one(registry, address, prefix):
    with pytest.raises(errors.InvalidInput, match="go together"):
        registry.save_node("S1", ME, name="gpu01", provision_ip=address, provision_prefix=prefix)
    registry.save_node("S2", ME, name="gpu02", provision_ip=address)
    with pytest.raises(errors.InvalidInput, match="go together"):
        registry.save_node("S2", ME, provision_prefix=prefix)


@pytest.mark.parametrize("address", ["bmc-gpu01.oob.example.org", "bmc_1", "fd00:77::11", "fe80::1%eth0", "10.77.0.11"])
def test_what_a_bmc_address_may_be(registry, address):
    registry.save_node("S1", ME, name="gpu01", bmc_address=address)
    assert registry.node("S1")["bmc_address"] == address


def test_values_are_stored_in_one_form(registry):
    registry.save_node(
        "S2", ME, name="gpu02", bmc_address="FD00:77:0:0::11", provision_ip=" 10.0.0.1 ", provision_prefix="31"
    )
    node = registry.node("S2")
    assert (node["bmc_address"], node["provision_ip"], node["provision_prefix"]) == ("fd00:77::11", "10.0.0.1", 31)
    registry.save_node("S1", ME, name="gpu01", provision_mac="52-54-00-AA-BB-CC", bmc_fingerprint="AB:" * 31 + "AB")
    node = registry.node("S1")
    assert node["provision_mac"] == "52:54:00:aa:bb:cc"
    assert node["bmc_fingerprint"] == "ab" * 32


def test_a_swapped_part_is_recorded_and_the_old_one_kept(registry):
    registry.save_node("S1", ME, name="gpu01", parts=[GPU, DISK])
    plan = registry.save_node("S1", ME, parts=[{**GPU, "serial": "G-2"}])
    assert [change.thing for change in plan.changes] == ["part gpu 0"]
    history = registry.parts("S1", history=True)
    assert [(part["serial"], part["until"] is None) for part in history if part["kind"] == "gpu"] == [
        ("G-1", False),
        ("G-2", True),
    ]
    # A kind that was not read is not gone.
    assert [part["serial"] for part in registry.node("S1")["parts"]] == ["D-1", "G-2"]
    assert registry.node("S1")["parts"][0]["size_bytes"] == 10


def test_a_part_that_is_gone_ends(registry):
    registry.save_node("S1", ME, name="gpu01", parts=[GPU, {**GPU, "slot": "1", "serial": "G-2"}])
    plan = registry.save_node("S1", ME, parts=[GPU])
    assert [(change.thing, change.after) for change in plan.changes] == [("part gpu 1", None)]
    assert len(registry.node("S1")["parts"]) == 1


def test_new_firmware_is_the_same_part(registry):
    registry.save_node("S1", ME, name="gpu01", parts=[GPU])
    since = registry.node("S1")["parts"][0]["since"]
    assert registry.save_node("S1", ME, parts=[{**GPU, "firmware": "97.0"}]).changed
    part = registry.node("S1")["parts"][0]
    assert (part["firmware"], part["since"]) == ("97.0", since)
    assert len(registry.parts("S1", history=True)) == 1


def test_facts_show_only_what_changed(registry):
    registry.save_node("S1", ME, name="gpu01", facts={"a": 1, "b": [1, 2]})
    plan = registry.save_node("S1", ME, facts={"a": 1, "c": 3})
    assert [(change.thing, change.before, change.after) for change in plan.changes] == [
        ("facts.b", [1, 2], None),
        ("facts.c", None, 3),
    ]


def test_a_name_belongs_to_one_living_node(registry):
    registry.save_node("S1", ME, name="gpu01")
    with pytest.raises(errors.Conflict, match="S1"):
        registry.save_node("S2", ME, name="gpu01")
    registry.transition("gpu01", "registered", "retired", ME, consent="S1")
    registry.save_node("S2", ME, name="gpu01")
    assert registry.node("gpu01")["serial"] == "S2"
    assert registry.node("S1")["state"] == "retired"


def test_nodes_filters(registry):
    registry.save_node("S2", ME, name="gpu02", rack="r1")
    registry.save_node("S1", ME, name="gpu01", rack="r2", state="manageable")
    registry.save_node("S3", ME, name="gpu03", rack="r1")
    registry.transition("S3", "registered", "retired", ME, consent="S3")

    def names(**filters):
        return [node["name"] for node in registry.nodes(**filters)]

    assert names() == ["gpu01", "gpu02"]
    assert names(state="registered") == ["gpu02"]
    assert names(state=["registered", "retired"]) == ["gpu02", "gpu03"]
    assert names(names=["gpu01", "S3"]) == ["gpu01", "gpu03"]
    assert names(rack="r1") == ["gpu02"]
    assert names(names=[]) == []
    with pytest.raises(errors.InvalidInput):
        registry.nodes(colour="red")


def test_a_transition_is_a_compare_and_swap_along_the_table(registry):
    registry.save_node("S1", ME, name="gpu01")
    with pytest.raises(errors.Conflict):
        registry.transition("gpu01", "manageable", "available", ME)
    with pytest.raises(errors.Refused, match="verifying"):
        registry.transition("gpu01", "registered", "active", ME)
    with pytest.raises(errors.InvalidInput):
        registry.transition("gpu01", "registered", "actve", ME)
    registry.transition("gpu01", "registered", "manageable", ME, "read")
    row = registry.audit_rows("gpu01")[-1]
    assert (row["actor"], row["action"]) == (ME, "state")
    assert '"to": "manageable"' in row["detail"] and '"reason": "read"' in row["detail"]


def test_stage_states_are_not_reached_without_an_attempt(registry, available):
    available()
    with pytest.raises(errors.Refused, match="only an attempt at stage deploy"):
        registry.transition("gpu01", "available", "deploying", ME)


def test_threads_that_create_the_same_node_make_one(url, registry):
    errors_seen, plans = [], []

    def create():
        try:
            with open_registry(url) as own:
                plans.append(own.save_node("S1", ME, name="gpu01", parts=[GPU]).changed)
        except Exception as error:
            errors_seen.append(error)

    threads = [threading.Thread(target=create) for _number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors_seen == []
    assert plans.count(True) == 1
    assert registry.verify_audit()["ok"]


def test_expected_servers(registry):
    rows = [
        {"serial": "S1", "name": "gpu01", "rack": "r1", "slot": "u1", "role": "compute"},
        {"serial": "S2", "rack": "r1", "slot": "u2"},
        {"serial": "S3", "rack": "r1", "slot": "u3"},
    ]
    assert registry.save_expected(rows, ME).changed
    assert not registry.save_expected(rows, ME).changed
    registry.save_node("S1", ME, name="gpu01", rack="r1", slot="u1", role="compute")
    registry.save_node("S2", ME, name="gpu02", rack="r1", slot="u9")
    registry.save_node("S9", ME, name="gpu09", rack="r1", slot="u3")
    assert registry.compare_expected() == {
        "matched": [{"serial": "S1", "name": "gpu01"}],
        "misplaced": [{"serial": "S2", "name": "gpu02", "differences": {"slot": ["u2", "u9"]}}],
        "missing": [{"serial": "S3", "rack": "r1", "slot": "u3"}],
        "unexpected": [{"serial": "S9", "name": "gpu09", "rack": "r1", "slot": "u3"}],
    }
    assert [row["serial"] for row in registry.expected(slot="u2")] == ["S2"]
    assert registry.save_expected([], ME).changed
    with pytest.raises(errors.InvalidInput):
        registry.save_expected([{"serial": "S1"}, {"serial": "S1"}])
    with pytest.raises(errors.InvalidInput):
        registry.save_expected([{"serial": "S1", "colour": "red"}])


def test_the_expected_list_keeps_every_column(registry):
    rows = [
        {
            "serial": "S1",
            "bmc_address": "10.0.0.1",
            "bmc_protocol": "ipmi",
            "provision_mac": "52-54-00-00-00-01",
            "provision_ip": "10.1.0.1",
            "provision_prefix": "24",
            "ansible_host": "10.2.0.1",
        }
    ]
    assert registry.plan_expected(rows).changed and registry.expected() == []
    assert registry.save_expected(rows, ME).changed
    assert not registry.plan_expected(rows).changed
    [row] = registry.expected()
    assert row["provision_mac"] == "52:54:00:00:00:01" and row["provision_prefix"] == 24
    assert {key: row[key] for key in ("bmc_address", "bmc_protocol", "provision_ip", "ansible_host")} == {
        key: rows[0][key] for key in ("bmc_address", "bmc_protocol", "provision_ip", "ansible_host")
    }
    with pytest.raises(errors.InvalidInput, match="row 1, provision_ip"):
        registry.save_expected([{"serial": "S1", "provision_ip": "x"}])


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NA"


def test_a_host_key_is_pinned_without_its_comment(registry):
    registry.save_node("S1", ME, name="gpu01")
    assert registry.plan_host_key("gpu01", KEY).changed
    assert registry.pin_host_key("gpu01", f"{KEY} root@gpu01", ME).changed
    assert not registry.pin_host_key("gpu01", KEY, ME).changed
    assert not registry.plan_host_key("gpu01", KEY).changed
    assert registry.node("gpu01")["host_key"] == KEY


@pytest.mark.parametrize(
    "key",
    [
        "garbage",
        "not a key\n* ssh-rsa AAAA",
        "ssh-ed25519 garbage",
        "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NA",
        "",
    ],
)
def test_garbage_is_no_host_key_neither_planned_nor_pinned(registry, key):
    registry.save_node("S1", ME, name="gpu01")
    for call in (lambda: registry.plan_host_key("gpu01", key), lambda: registry.pin_host_key("gpu01", key, ME)):
        with pytest.raises(errors.InvalidInput, match="host_key.*wanted: .*seen: .*next: "):
            call()
    assert registry.node("gpu01")["host_key"] is None


def test_an_unknown_state_is_refused_with_the_states_there_are(registry):
    for states in ("unknown", ["available", "avialable"]):
        with pytest.raises(errors.InvalidInput, match="wanted: any of registered.*next: "):
            registry.nodes(state=states)
    assert registry.nodes(state=["verifying_failed", "burn_in_failed"]) == []


def test_a_retired_node_is_not_changed_any_more(registry):
    registry.save_node("S1", ME, name="gpu01", rack="r1")
    registry.transition("gpu01", "registered", "retired", ME, "sold", consent="S1")
    rows = registry.verify_audit()["rows"]
    for call in (
        lambda: registry.plan_node("S1", rack="r1"),
        lambda: registry.save_node("S1", ME, name="gpu01", rack="r2"),
        lambda: registry.save_node("S1", ME, facts={"a": 1}),
        lambda: registry.pin_host_key("S1", KEY, ME),
        lambda: registry.plan_host_key("S1", KEY),
        lambda: registry.acquire_lease("S1", "slurm", ME),
        lambda: registry.hold("S1", "alice", "x", "y", False, ME),
    ):
        with pytest.raises(errors.Refused, match="is retired.*next: .*its own serial") as seen:
            call()
        assert seen.value.code == "node_retired"
    assert registry.verify_audit()["rows"] == rows


def test_a_planned_transition_is_refused_as_the_real_one_is(registry, available):
    serial = available()
    for expected, new, kind in (
        ("available", "deploying", errors.Refused),
        ("available", "active", errors.Refused),
        ("available", "avialable", errors.InvalidInput),
        ("manageable", "available", errors.Conflict),
    ):
        for check in (True, False):
            with pytest.raises(kind):
                registry.transition(serial, expected, new, ME, check=check)
    registry.transition(serial, "available", "retired", ME, check=True, consent=serial)
    assert registry.node(serial)["state"] == "available"


@pytest.mark.parametrize(
    ("has", "asks", "words"),
    [
        (
            {"provision_mac": "52:54:00:AA:BB:01"},
            {"provision_mac": "52-54-00-aa-bb-01"},
            "provision_mac 52:54:00:aa:bb:01",
        ),
        ({"provision_ip": "10.0.0.1"}, {"provision_ip": "10.0.0.1"}, "provision_ip 10.0.0.1"),
        ({"bmc_address": "Bmc1.example"}, {"bmc_address": "bmc1.example"}, "bmc_address bmc1.example port 443"),
        ({"bmc_address": "10.1.0.1", "bmc_port": 443}, {"bmc_address": "10.1.0.1"}, "bmc_address 10.1.0.1 port 443"),
        ({"rack": "r1", "slot": "u1"}, {"rack": "r1", "slot": "u1"}, "place rack r1, slot u1"),
        (
            {"site": "s1", "rack": "r1", "slot": "u1"},
            {"site": "s1", "rack": "r1", "slot": "u1"},
            "place site s1, rack r1",
        ),
    ],
)
def test_what_another_node_has_is_refused_by_its_name(registry, has, asks, words):
    registry.save_node("S1", ME, name="gpu01", **has)
    registry.save_node("S2", ME, name="gpu02")
    rows = registry.verify_audit()["rows"]
    for serial, name in (("S2", "gpu02"), ("S3", "gpu03")):
        for act in (registry.plan_node, lambda serial, **more: registry.save_node(serial, ME, **more)):
            with pytest.raises(errors.Conflict, match=f"{name}.*the {words}.* belongs to gpu01.*next: .*gpu01") as seen:
                act(serial, name=name, **asks)
            assert seen.value.code == "conflict"
    assert registry.verify_audit()["rows"] == rows
    assert not registry.save_node("S1", ME, **has).changed
    registry.transition("S1", "registered", "retired", ME, consent="S1")
    assert registry.save_node("S2", ME, **asks).changed


def test_what_only_looks_like_anothers_is_taken(registry):
    registry.save_node("S1", ME, name="gpu01", bmc_address="10.1.0.1", site="s1", rack="r1", slot="u1")
    registry.save_node("S2", ME, name="gpu02", bmc_address="10.1.0.1", bmc_port=8443, site="s2", rack="r1", slot="u1")
    registry.save_node("S3", ME, name="gpu03", bmc_address="10.1.0.1", bmc_protocol="ipmi", site="s1", rack="r1")
    with pytest.raises(errors.Conflict, match="place site s1, rack r1, slot u1 belongs to gpu01"):
        registry.plan_node("S3", slot="u1")
    with pytest.raises(errors.Conflict, match="belongs to gpu01"):
        registry.plan_node("S2", site="s1")


def test_two_nodes_swap_as_the_message_says(registry):
    macs = ["52:54:00:00:00:01", "52:54:00:00:00:02"]
    for number, mac in enumerate(macs, 1):
        registry.save_node(f"S{number}", ME, name=f"gpu0{number}", provision_mac=mac)
    with pytest.raises(errors.Conflict, match=r"empty the provision_mac of gpu02 first \(provision_mac: ''\)"):
        registry.save_node("S1", ME, provision_mac=macs[1])
    registry.save_node("S2", ME, provision_mac="")
    registry.save_node("S1", ME, provision_mac=macs[1])
    registry.save_node("S2", ME, provision_mac=macs[0])
    assert [node["provision_mac"] for node in registry.nodes()] == macs[::-1]


def test_every_row_of_the_table_refuses_what_its_needs_say():
    """Each operator's row from its start state: with everything it needs it goes through, and without any one of the needs it does not."""
    for row in transitions.TRANSITIONS:
        if row["who"] != "operator":
            continue
        for lease in ("slurm", "kubernetes", "maintenance", None):
            for consent in (None, "", "gpu01", "S2", "S1"):
                code = seen = None
                if "consent" in row["needs"] and consent != "S1":
                    code = "consent_required"
                if "no_lease" in row["needs"] and lease in ("slurm", "kubernetes"):
                    code = "node_leased"
                node = {"serial": "S1", "name": "gpu01", "state": row["from"], "lease": lease}
                try:
                    nodes.check_transition(node, row["to"], consent=consent)
                except errors.Refused as error:
                    seen = error.code
                    assert error.next_step and "gpu01" in str(error) and "S1" not in str(error)
                assert seen == code, (row, lease, consent)


@pytest.mark.parametrize("check", [True, False])
def test_what_cannot_be_taken_back_needs_the_serial(registry, available, check):
    serial = available()
    for consent in (None, "gpu01"):
        with pytest.raises(errors.Refused, match="consent by serial number") as seen:
            registry.transition("gpu01", "available", "retired", ME, check=check, consent=consent)
        assert seen.value.code == "consent_required"
    registry.acquire_lease("gpu01", "slurm", ME)
    with pytest.raises(errors.Refused, match="leased to slurm"):
        registry.transition("gpu01", "available", "retired", ME, check=check, consent=serial)
    assert registry.node("gpu01")["state"] == "available"


def test_a_node_in_service_is_not_deployed_again_behind_its_schedulers_back(registry, sql):
    registry.save_node("S1", ME, name="gpu01")
    sql("UPDATE nodes SET state = 'active', lease = 'slurm'")
    registry.transition("gpu01", "active", "draining", ME)
    with pytest.raises(errors.Refused, match="leased to slurm.*next: .*drain playbook"):
        registry.transition("gpu01", "draining", "manageable", ME)
    registry.release_lease("gpu01", "slurm", ME)
    registry.transition("gpu01", "draining", "manageable", ME)
