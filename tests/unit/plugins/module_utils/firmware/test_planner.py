# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import itertools
import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import InvalidInput
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import baseline as files
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import planner as subject
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.baseline import ACTIVATIONS
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.planner import HOW, FirmwarePlan, plan
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.versions import Condition, Rule

from .conftest import SHA, component, document, rows

HOP = {"from": "<1.5", "via": "1.5", "image": {"path": "hop.bin", "sha256": SHA}}


def pushes(found):
    return [(step.round, step.component, step.from_version, step.to_version) for step in found.steps]


def codes(found):
    return {item.component: item.code for item in found.skipped}


def test_nothing_to_do(make):
    found = plan(*make(bmc=component(), bios=component()), rows(bmc="2.0.0", bios="2.0"))
    assert not found.changed and not found.problems
    assert codes(found) == {"bmc": "already_there", "bios": "already_there"}
    assert found.diff() == {"before": "", "after": ""}
    assert found.summary() == "nothing to flash"


def test_one_reset_for_all_that_it_activates(make):
    baseline = make(
        bmc=component(activation="bmc_reset", order=1), bios=component(), cpld=component(activation="ac_cycle", order=2)
    )
    found = plan(*baseline, rows(bmc="1.0", bios="1.0", cpld="1.0"))
    assert pushes(found) == [(1, "bmc", "1.0", "2.0"), (1, "cpld", "1.0", "2.0"), (1, "bios", "1.0", "2.0")]
    assert found.activations == ["ac_cycle"] and found.resets == 1
    assert "needs bmc_reset, which ac_cycle includes" in found.steps[0].why


def test_no_greater_reset_than_anything_needs(make):
    found = plan(*make(bmc=component(activation="bmc_reset"), bios=component()), rows(bmc="1.0", bios="1.0"))
    assert sorted(found.activations) == ["bmc_reset", "host_reboot"]


def test_hops_are_rounds_of_their_own(make):
    found = plan(*make(bios=component(hops=[HOP], **{"from": ">=1.5"})), rows(bios="1.0"))
    assert pushes(found) == [(1, "bios", "1.0", "1.5"), (2, "bios", "1.5", "2.0")]
    assert [step.final for step in found.steps] == [False, True]
    assert found.steps[0].image_name == "hop.bin"
    assert "on the way to 2.0" in found.steps[0].why


def test_a_hop_is_left_out_where_it_is_not_needed(make):
    found = plan(*make(bios=component(hops=[HOP])), rows(bios="1.6"))
    assert pushes(found) == [(1, "bios", "1.6", "2.0")]


def test_requirement_waits_for_the_activation(make):
    baseline = make(bios=component(requires={"bmc": ">=1.8"}, order=1), bmc=component(activation="bmc_reset", order=9))
    found = plan(*baseline, rows(bios="1.0", bmc="1.0"))
    assert pushes(found) == [(1, "bmc", "1.0", "2.0"), (2, "bios", "1.0", "2.0")]
    assert (
        plan(*baseline, rows(bios="1.0", bmc="1.9")).resets == 2
    )  # bmc_reset and host_reboot, neither holds the other


def test_requirement_that_a_hop_of_the_other_meets(make):
    baseline = make(
        bios=component(requires={"cpld": ">=1.5"}),
        cpld=component(activation="host_reboot", hops=[HOP]),
    )
    found = plan(*baseline, rows(bios="1.0", cpld="1.0"))
    assert found.resets == 2  # cpld's second image and bios share the second reset
    assert pushes(found) == [(1, "cpld", "1.0", "1.5"), (2, "bios", "1.0", "2.0"), (2, "cpld", "1.5", "2.0")]


def test_unknown_version_is_refused_and_so_is_what_requires_it(make):
    baseline = make(bmc=component(), bios=component(requires={"bmc": ">=2"}), nic=component())
    found = plan(*baseline, rows(bmc="N/A", bios="1.0", nic="1.0"))
    assert pushes(found) == [(1, "nic", "1.0", "2.0")]
    assert codes(found) == {"bmc": "unknown_version", "bios": "requirement_unmet"}
    assert "N/A" in found.problems[0].text
    assert "requires bmc >=2" in found.problems[1].text


def test_missing_component(make):
    found = plan(*make(bmc=component(), dpu=component(optional=True), cpld=component()), rows(bmc="1.0"))
    assert codes(found) == {"dpu": "not_present_optional", "cpld": "not_present"}
    assert [item.component for item in found.problems] == ["cpld"]


def test_downgrade_only_when_asked(make):
    baseline = make(bmc=component())
    found = plan(*baseline, rows(bmc="3.0"))
    assert codes(found) == {"bmc": "newer_runs"} and not found.problems
    assert pushes(plan(*baseline, rows(bmc="3.0"), downgrade=True)) == [(1, "bmc", "3.0", "2.0")]


def test_no_path(make):
    found = plan(*make(bmc=component(**{"from": ">=1.5"})), rows(bmc="1.0"))
    assert codes(found) == {"bmc": "no_path"} and found.problems


def test_two_patterns_that_mean_one_device_are_refused(make):
    """Different patterns, so the file alone cannot tell; the first inventory does, before anything is sent."""
    baseline, platform = make(bmc=component(inventory="BMC"), all_bmcs=component(inventory="^(H?BMC)$", wanted="3.0"))
    with pytest.raises(InvalidInput) as caught:
        plan(baseline, platform, [{"id": "BMC", "version": "1.0"}])
    assert caught.value.code == "baseline_two_owners"
    assert "components.all_bmcs.inventory" in caught.value.thing and "BMC is matched by bmc" in caught.value.seen
    assert plan(
        *make(bmc=component(inventory="^BMC$"), hbmc=component(inventory="^HBMC$")), rows(BMC="1", HBMC="1")
    ).steps
    # the same name of a NIC and of a row of the BMC are two things
    found = plan(
        *make(a=component(inventory="X"), b=component(inventory="X", path="nvme")),
        [{"id": "X", "version": "1.0"}, {"id": "X", "version": "1.0", "path": "nvme"}],
    )
    assert len(found.steps) == 2


def test_not_updateable(make):
    found = plan(*make(bmc=component()), [{"id": "bmc", "version": "1.0", "updateable": False}])
    assert codes(found) == {"bmc": "not_updateable"}


def test_several_rows_of_one_component(make):
    baseline = make(gpu=component(inventory="^gpu", hops=[HOP]))
    found = plan(*baseline, rows(gpu0="1.0", gpu1="1.6", gpu2="2.0", gpu3="2.1"))
    assert pushes(found) == [(1, "gpu", "1.0", "1.5"), (2, "gpu", "1.5", "2.0")]
    assert [step.inventory for step in found.steps] == [
        ["gpu0"],
        ["gpu0", "gpu1"],
    ]  # never the newer one, never the right one
    assert codes(plan(*baseline, rows(gpu0="1.0", gpu1="?"))) == {"gpu": "unknown_version"}


def test_excludes(make):
    # bios 2.0 does not bear cpld below 2.0: cpld first, though both need the same reset
    found = plan(*make(bios=component(excludes={"cpld": "<2.0"}), cpld=component()), rows(bios="1.0", cpld="1.0"))
    assert pushes(found) == [(1, "cpld", "1.0", "2.0"), (2, "bios", "1.0", "2.0")]


def test_conditions_that_no_order_keeps(make):
    # a does not bear b at its hop, b's last image needs a at its own last: a first breaks nothing, b's hop after it does
    baseline = make(
        a=component(excludes={"b": "==1.5"}, requires={"b": ">=1.5"}),
        b=component(hops=[HOP], requires={}),
    )
    assert plan(*baseline, rows(a="1.0", b="1.0")).resets == 3
    stuck = make(
        a=component(requires={"b": "==2.0"}, excludes={"c": "==1.0"}),
        b=component(),
        c=component(requires={"b": "==2.0"}, hops=[HOP], excludes={}),
    )
    assert plan(*stuck, rows(a="1.0", b="1.0", c="1.0")).changed


def test_unsolvable_is_named_and_the_rest_is_planned(make):
    # both exclude the other's old version: neither can be first, and together they are not allowed either
    baseline = make(a=component(excludes={"b": "<2.0"}), b=component(excludes={"a": "<2.0"}), c=component())
    found = plan(*baseline, rows(a="1.0", b="1.0", c="1.0"))
    assert codes(found) == {"a": "no_order", "b": "no_order"} and len(found.problems) == 2
    assert pushes(found) == [(1, "c", "1.0", "2.0")]


def test_only_some_components(make):
    baseline = make(bmc=component(), bios=component(requires={"bmc": ">=2.0"}))
    assert codes(plan(*baseline, rows(bmc="1.0", bios="1.0"), only=["bios"])) == {"bios": "requirement_unmet"}
    assert pushes(plan(*baseline, rows(bmc="2.0", bios="1.0"), only=["bios"])) == [(1, "bios", "1.0", "2.0")]
    with pytest.raises(InvalidInput, match="bmc, bios"):
        plan(*baseline, rows(), only=["cpld"])


def test_immediate_costs_no_reset(make):
    found = plan(*make(bmc=component(activation="immediate"), bios=component()), rows(bmc="1.0", bios="1.0"))
    assert found.resets == 1 and sorted(found.activations) == ["host_reboot", "immediate"]


def test_printed(make):
    found = plan(*make(bmc=component(activation="bmc_reset", can_brick=True)), rows(bmc="1.0"))
    assert found.diff() == {
        "before": 'firmware.bmc: "1.0"\n',
        "after": 'firmware.bmc: "2.0"\n# 1. push bmc 1.0 -> 2.0 (image.bin): the baseline wants it; can brick, wants consent\n#    then bmc_reset (1 of 1)\n',
    }
    assert found.summary() == "bmc 1.0 -> 2.0; 1 pushes, 1 resets"
    assert found.consent_needed == ["bmc"]


def test_what_is_left_alone_is_printed_with_its_reason(make):
    """But for what is as it should be: a printed plan is to show what the baseline says and nobody will do."""
    parts = {"bmc": component(), "bios": component(), "cpld": component(), "nic": component(optional=True)}
    found = plan(*make(**parts), rows(bmc="1.0", bios="3.0"))
    printed = found.diff()["after"]
    assert "# -  bios: " in printed and "# -  cpld: " in printed and "nic" not in printed
    assert plan(*make(bmc=component()), rows(bmc="2.0")).diff() == {"before": "", "after": ""}


def test_json_round_trip(make):
    found = plan(*make(bmc=component(hops=[HOP]), bios=component()), rows(bmc="1.0", bios="x"))
    assert FirmwarePlan.from_dict(json.loads(json.dumps(found.as_dict()))) == found


def test_how_an_image_is_sent_comes_from_the_baseline(make):
    """Targets, force, apply time and the rest are the platform's; nothing is sent that is not written there."""
    how = {
        "method": "multipart",
        "targets": ["/redfish/v1/UpdateService/FirmwareInventory/BMC"],
        "force": True,
        "apply_time": "OnReset",
        "oem": {"OemParameters": {"ImageType": "BMC"}},
        "can_brick": True,
        "siblings": "chassis",
        "limit_s": 90.0,
        "path": "nic",
        "psid": ["MT_1"],
    }
    [step] = plan(
        *make(bmc=component(rule="release", extract="v(.*)", **how)), [{"id": "bmc", "version": "v1.0", "path": "nic"}]
    ).steps
    assert {key: getattr(step, key) for key in how} == how and set(HOW) == set(how)
    assert (step.rule, step.extract) == ("release", "v(.*)")
    [plain] = plan(*make(bmc=component()), rows(bmc="1.0")).steps
    assert (plain.method, plain.targets, plain.force, plain.apply_time, plain.oem) == (
        "auto",
        "none",
        False,
        None,
        None,
    )


def test_determined(make):
    baseline = make(a=component(), b=component(), c=component(requires={"a": ">=2"}))
    found = [plan(*baseline, rows(a="1", b="1", c="1")).as_dict() for _unused in range(3)]
    assert found[0] == found[1] == found[2]


# ---- against an exhaustive search ---------------------------------------------------------------------------------------------------------
NAMES = ("a", "b", "c", "d")


@st.composite
def problems(draw):
    """A baseline of up to four components with hops, requirements and different resets, and what runs."""
    names = NAMES[: draw(st.integers(1, 4))]
    spec, versions = {}, {}
    for index, name in enumerate(names):
        more = {"hops": [HOP]} if draw(st.booleans()) else {}
        before = names[:index]
        if before and draw(st.booleans()):
            more["requires"] = {draw(st.sampled_from(before)): draw(st.sampled_from([">=1.5", ">=2.0"]))}
        spec[name] = component(activation=draw(st.sampled_from(sorted(ACTIVATIONS))), **more)
        versions[name] = draw(st.sampled_from(["1.0", "1.6", "2.0"]))
    return spec, versions


def exhaustive(spec, versions):
    """The smallest number of resets, by trying every sequence of resets with every choice of images in breadth-first order."""
    rule = Rule("dotted")

    def following(name, version):
        return "1.5" if spec[name].get("hops") and rule.compare(version, "1.5") < 0 else "2.0"

    def ready(name, state):
        return state[name] != "2.0" and all(
            Condition(text, rule).holds(state[other]) for other, text in spec[name].get("requires", {}).items()
        )

    seen, layer, count = set(), [dict(versions)], 0
    while layer:
        free = list(layer)
        while free:  # images that need no reset, in any order
            state = free.pop()
            for name in spec:
                if ready(name, state) and spec[name]["activation"] == "immediate":
                    new = {**state, name: following(name, state[name])}
                    if new not in layer:
                        layer.append(new)
                        free.append(new)
        if any(set(state.values()) <= {"2.0"} for state in layer):
            return count
        count, new_layer = count + 1, []
        for state in layer:
            for reset, row in ACTIVATIONS.items():
                group = [
                    name for name in spec if ready(name, state) and spec[name]["activation"] in (reset, *row["covers"])
                ]
                for size in range(1, len(group) + 1):
                    for chosen in itertools.combinations(group, size):
                        new = {**state, **{name: following(name, state[name]) for name in chosen}}
                        key = tuple(new.values())
                        if (
                            key not in seen
                            and reset != "immediate"
                            and any(spec[name]["activation"] == reset for name in chosen)
                        ):
                            seen.add(key)
                            new_layer.append(new)
        layer = new_layer
    return None


def test_an_image_is_held_back_where_that_saves_a_reset(make):
    """Two AC cycles, each driven by one of two images and carrying a hop of the others, and not a BMC reset, a reboot and an AC cycle."""
    found = plan(
        *make(
            a=component(activation="bmc_reset", hops=[HOP]),
            b=component(activation="host_reboot", hops=[HOP]),
            c=component(activation="ac_cycle"),
            d=component(activation="ac_cycle"),
        ),
        rows(a="1.0", b="1.0", c="1.0", d="1.0"),
    )
    assert found.activations == ["ac_cycle", "ac_cycle"]
    assert [sorted(step.component for step in found.round(number)) for number in (1, 2)] in (
        [["a", "b", "c"], ["a", "b", "d"]],
        [["a", "b", "d"], ["a", "b", "c"]],
    )


@settings(max_examples=80, deadline=None)
@given(problems())
def test_fewest_resets_and_every_rule_kept(problem):
    spec, versions = problem
    baseline = files.parse(document(**spec))
    found = plan(baseline, baseline.platforms["p"], rows(**versions))
    assert not found.problems
    assert found.resets == exhaustive(spec, versions)
    # carried out on paper: every push starts from what runs, its requirements run, its reset activates it, the end is the baseline
    now = dict(versions)
    for number, reset in enumerate(found.activations, 1):
        after = dict(now)
        for step in found.round(number):
            assert step.from_version == now[step.component]
            assert step.activation in (reset, *ACTIVATIONS[reset]["covers"])
            for other, text in spec[step.component].get("requires", {}).items():
                assert Condition(text, Rule("dotted")).holds(now[other])
            after[step.component] = step.to_version
        assert after != now
        now = after
    assert set(now.values()) <= {"2.0"}


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*NAMES, "x"]), st.one_of(st.none(), st.text(max_size=8), st.just("1.0"), st.integers())
    ),
    st.booleans(),
)
def test_whatever_the_inventory_says_there_is_a_plan(versions, downgrade):
    baseline = files.parse(
        document(a=component(), b=component(requires={"a": ">=2"}), c=component(rule="exact", wanted="v"))
    )
    observed = [{"id": name, "version": version} for name, version in versions.items()]
    found = plan(baseline, baseline.platforms["p"], observed, downgrade)
    assert {item.component for item in found.skipped} | {step.component for step in found.steps} == {"a", "b", "c"}
    assert all(item.text for item in found.skipped)


def test_a_plan_made_once_is_each_nodes_own(make, monkeypatch):
    baseline, platform = make(bios=component(), cpld=component(activation="ac_cycle"))
    observed = [{"id": name, "version": "1.0", "staged": None} for name in ("bios", "cpld")]
    made, search = [], subject.plan
    monkeypatch.setattr(subject, "plan", lambda *args: (made.append(1), search(*args))[1])
    threads = [threading.Thread(target=subject.plan_once, args=(baseline, platform, observed)) for _n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = subject.plan_once(baseline, platform, observed)
    first.skipped.append("mine")
    first.steps[0].image["path"] = "mine"
    assert subject.plan_once(baseline, platform, observed) == search(baseline, platform, observed)
    assert len(made) == 1
    for change in ({"version": "1.1"}, {"updateable": False}, {"path": "nic"}):
        subject.plan_once(baseline, platform, [{**observed[0], **change}, observed[1]])
    assert len(made) == 4


def test_resets_of_what_is_left_count_only_rounds_with_something_in_them(make):
    baseline, platform = make(bios=component(), cpld=component(activation="ac_cycle", requires={"bios": ">=2.0"}))
    found = subject.plan(baseline, platform, [{"id": name, "version": "1.0"} for name in ("bios", "cpld")])
    assert found.resets == 2 == subject._resets(zip(found.activations, ("a", "b")))
    left = found.left({1: "active"}, [{"id": "bios", "version": "2.0"}, {"id": "cpld", "version": "1.0"}])
    assert left.resets == 1
