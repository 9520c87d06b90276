# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import random

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.core.errors import BaremetalError, FencedOut
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import baseline as files
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import port as ports
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.engine import (
    MOST_PUSHES,
    Engine,
    Limits,
    consent_refused,
)
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.planner import plan

from .conftest import SHA, component, document
from .fakes import Bmc, Clock, Deadly, Fate, Images, Journal, Killed

HOP = {"from": "<1.5", "via": "1.5", "image": {"path": "hop.bin", "sha256": SHA}}
SPEC = {
    "bmc": component(activation="immediate", order=1),
    "bios": component(hops=[HOP], requires={"bmc": ">=2.0"}),
    "cpld": component(activation="ac_cycle", order=200, requires={"bios": ">=1.5"}),
}
NEEDED = [("bmc", "2.0"), ("bios", "1.5"), ("bios", "2.0"), ("cpld", "2.0")]


class Lab:
    """A BMC with old versions, the plan for it and its journal; `run()` is one controller."""

    def __init__(self, spec=None, **faults):
        self.spec = spec or SPEC
        self.clock = Clock()
        baseline = files.parse(document(**self.spec))
        versions = dict.fromkeys(self.spec, "1.0")
        self.bmc = Bmc(self.clock, versions, {name: row["activation"] for name, row in self.spec.items()}, **faults)
        self.plan = plan(baseline, baseline.platforms["p"], self.bmc.inventory())
        self.journal = Journal(self.plan, self.clock)

    def run(self, fate=None, **more):
        bmc, journal = self.bmc, self.journal
        if fate:
            bmc = Deadly(fate, bmc, ports.METHODS)
            journal = Deadly(fate, journal, ("move",))
            self.bmc.kill = fate
        else:
            self.bmc.kill = lambda where: None
        engine = Engine(
            bmc, journal, self.plan, Images(), Limits(blind=60), clock=self.clock, sleep=self.clock.sleep, **more
        )
        return engine.run()

    @property
    def states(self):
        return {
            (step.component, step.to_version): record["state"]
            for step, record in zip(self.plan.steps, self.journal.records)
        }


def test_the_plan_is_what_these_tests_think(make):
    lab = Lab()
    assert [(step.component, step.to_version) for step in lab.plan.steps] == NEEDED
    assert lab.plan.activations == ["immediate", "host_reboot", "ac_cycle"]


def test_to_the_end():
    lab = Lab()
    outcome = lab.run()
    assert outcome.state == "active" and not outcome.notes
    assert lab.bmc.versions == {"bmc": "2.0", "bios": "2.0", "cpld": "2.0"}
    assert lab.bmc.arrived == NEEDED
    assert lab.bmc.restarts == ["host_reboot", "ac_cycle"]
    assert set(lab.states.values()) == {"active"}


def test_a_second_run_sends_nothing():
    lab = Lab()
    lab.run()
    sent = list(lab.bmc.arrived)
    assert lab.run().state == "active"
    assert lab.bmc.arrived == sent and len(lab.bmc.restarts) == 2


# A BMC that ends at the baseline, however its tasks and answers behave, with exactly the images that are needed.
RECOVERABLE = {
    "healthy": {},
    "keeps old tasks": {"old_task": True},
    "forgets finished tasks": {"forgets_tasks": True},
    "has no task list": {"no_task_list": True},
    "shows what is staged": {"shows_staged": True, "forgets_tasks": True},
    "has no restart marks": {"no_marks": True},
    "loses an answer": {"lose_answer": True},
    "lies at 100 %": {"lies_at_100": True},
    "gives no task": {"no_task": True, "no_task_list": True},
    "breaks off an upload": {"break_off": 2},
}


@pytest.mark.parametrize("name", RECOVERABLE)
def test_recoverable(name):
    lab = Lab(**RECOVERABLE[name])
    assert lab.run().state == "active"
    assert lab.bmc.arrived == NEEDED
    assert set(lab.bmc.versions.values()) == {"2.0"}


@pytest.mark.parametrize("name", RECOVERABLE)
def test_killed_at_every_line_and_run_again(name):
    """The controller dies before and after each call on the BMC and on the journal, and at three places inside an upload."""
    at, resets = 1, []
    while True:
        lab = Lab(**RECOVERABLE[name])
        fate = Fate(at)
        try:
            lab.run(fate)
            break  # it lived to the end: every place was tried
        except Killed:
            pass
        # the dead controller's successor comes a while later, or at once
        lab.clock.sleep((0, 1, 40, 300)[at % 4])
        outcome = lab.run()
        assert outcome.state == "active", (at, fate.where, outcome)
        assert sorted(lab.bmc.arrived) == sorted(NEEDED), (at, fate.where)
        assert set(lab.bmc.versions.values()) == {"2.0"}, fate.where
        resets.append(len(lab.bmc.restarts))
        at += 1
    assert at > 60
    # one reset more only where the place of the kill leaves no other way to know, never two
    assert max(resets) <= 3


@pytest.mark.parametrize("name", ["healthy", "forgets finished tasks", "keeps old tasks"])
def test_killed_again_and_again(name):
    """A controller that dies every few calls still gets there, with the same images."""
    for seed in range(4):
        chance = random.Random(seed)
        lab, outcome = Lab(**RECOVERABLE[name]), None
        for _life in range(200):
            try:
                # a life must now and then be long enough to wait once for a sign of the image
                outcome = lab.run(Fate(chance.randint(1, 60)))
            except Killed:
                continue
            break
        assert outcome and outcome.state == "active", lab.states
        assert sorted(lab.bmc.arrived) == sorted(NEEDED)


# A BMC on which the plan cannot end well: parked, with a reason, and without a second image.
HOPELESS = {
    "task fails": ({"task_fails": True}, "task_failed", 1),
    "update without effect": ({"no_effect": True}, "no_effect", 1),
    "without effect and forgets": ({"no_effect": True, "forgets_tasks": True}, "no_sign", 1),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_parked(name):
    faults, code, most = HOPELESS[name]
    lab = Lab(**faults)
    outcome = lab.run()
    assert (outcome.state, outcome.code) == ("parked", code)
    assert outcome.reason and outcome.next_step
    assert len(lab.bmc.arrived) == most
    again = lab.run()
    assert again.next_step == outcome.next_step  # the record keeps it for whoever asks later
    assert again.state == "parked" and len(lab.bmc.arrived) == most  # until a person says retry


def test_no_effect_after_the_reset():
    lab = Lab({"bios": component()}, no_effect=True)
    outcome = lab.run()
    assert (outcome.state, outcome.code) == ("parked", "no_effect")
    assert "old version runs: bios 1.0" in outcome.reason
    assert lab.bmc.arrived == [("bios", "2.0")] and lab.bmc.restarts == ["host_reboot"]


def test_what_nobody_saw_arrive_is_not_sent_for_ever():
    lab = Lab({"bios": component()}, no_effect=True, no_task=True, no_task_list=True)
    outcome = lab.run()
    assert outcome.state == "parked" and len(lab.bmc.arrived) == MOST_PUSHES


def test_a_reset_that_this_bmc_cannot_do_waits_for_hands():
    lab = Lab({"cpld": component(activation="ac_cycle")}, cannot=("ac_cycle",))
    outcome = lab.run()
    assert (outcome.state, lab.states) == ("awaiting_activation", {("cpld", "2.0"): "awaiting_activation"})
    assert "ac_cycle" in outcome.reason and "not offered" in outcome.reason
    assert lab.run().state == "awaiting_activation" and len(lab.bmc.arrived) == 1
    lab.bmc.cannot = ()
    lab.bmc.restart("ac_cycle")  # somebody pulls the plug
    lab.clock.sleep(100)
    assert lab.run().state == "active" and len(lab.bmc.arrived) == 1 and len(lab.bmc.restarts) == 1


def test_a_bmc_that_is_busy_at_the_reset_is_asked_again():
    lab = Lab({"bios": component()}, busy_at_reset=3)
    assert lab.run().state == "active" and lab.bmc.restarts == ["host_reboot"]


def test_a_reset_that_does_not_happen_parks_and_a_retry_goes_on_there():
    lab = Lab({"bios": component()}, refuses_reset=True)
    outcome = lab.run()
    assert (outcome.state, outcome.code, outcome.next_step) == ("parked", "accepted_not_moved", "look")
    assert lab.states == {("bios", "2.0"): "activating"}
    lab.bmc.refuses_reset = False
    assert lab.run().state == "active" and lab.bmc.arrived == [("bios", "2.0")]


@pytest.mark.parametrize("no_marks", [False, True])
@pytest.mark.parametrize("where", ["before restart", "reset_done", "after restart", "after move"])
@pytest.mark.parametrize("later", [1, 300, 5000])
def test_a_controller_killed_around_the_reset_cuts_no_flash(no_marks, where, later):
    """Whatever the next one can see of it: no second reset falls into a flash, and where the first was answered there is no second."""
    lab = Lab({"bios": component()}, no_marks=no_marks, flash_seconds=900.0)

    def fate(place):
        if place == where and (where != "after move" or lab.bmc.restarts):
            raise Killed

    with pytest.raises(Killed):
        lab.run(fate)
    lab.clock.sleep(later)
    assert lab.run().state == "active"
    assert lab.bmc.flashes_cut == 0 and lab.bmc.restarts == ["host_reboot"]
    assert lab.bmc.arrived == [("bios", "2.0")]


def test_a_reset_that_nobody_knows_of_is_given_the_time_of_an_activation():
    """Without marks and without an answer: what a reset of an hour ago did not bring it does not bring any more."""
    waited = []
    for age in (0.0, 1000.0, 3600.0):
        lab = Lab({"bios": component()}, no_marks=True)

        def fate(place):
            if place == "before restart":
                raise Killed

        with pytest.raises(Killed):
            lab.run(fate)
        assert lab.states == {("bios", "2.0"): "activating"}
        lab.clock.sleep(age)
        begun = lab.clock()
        assert lab.run().state == "active" and lab.bmc.restarts == ["host_reboot"]
        waited.append(lab.clock() - begun)
    assert waited[0] >= 1800 and 800 <= waited[1] < 1000 and waited[2] < 100


@pytest.mark.parametrize("code", ["unreachable", "deadline_exceeded", "bmc_failed", "answer_lost"])
@pytest.mark.parametrize("no_marks", [False, True])
def test_an_error_after_a_reset_that_was_done_is_no_reason_for_a_second(code, no_marks):
    lab = Lab({"bios": component()}, no_marks=no_marks, flash_seconds=900.0, lost_after_reset=code)
    assert lab.run().state == "active"
    assert lab.bmc.flashes_cut == 0 and lab.bmc.restarts == ["host_reboot"]


def test_the_first_mark_of_a_host_is_a_restart():
    lab = Lab({"bios": component()}, flash_seconds=900.0)
    lab.bmc.marks = lambda: {"host": lab.bmc.resets or None, "bmc": None}

    def fate(place):
        if place == "reset_done":
            raise Killed

    with pytest.raises(Killed):
        lab.run(fate)
    begun = lab.clock()
    assert lab.run().state == "active" and lab.bmc.restarts == ["host_reboot"] and lab.bmc.flashes_cut == 0
    assert lab.clock() - begun < 1000


def test_the_restart_of_another_part_does_not_answer_for_this_one():
    """A BMC that marks only the host's restart cannot say whether itself was restarted."""
    lab = Lab({"bmc": component(activation="bmc_reset")})
    lab.bmc.marks = lambda: {"host": 0, "bmc": None}

    def fate(place):
        if place == "before restart":
            raise Killed

    with pytest.raises(Killed):
        lab.run(fate)
    begun = lab.clock()
    assert lab.run().state == "active" and lab.bmc.restarts == ["bmc_reset"]
    assert lab.clock() - begun >= 1800


def test_a_version_that_went_back_is_no_success():
    """Recorded as active by an earlier life; at the end every version is read once more."""
    lab = Lab()

    def fate(place):
        if lab.bmc.restarts == ["host_reboot"] and place == "before push":
            raise Killed

    with pytest.raises(Killed):
        lab.run(fate)
    lab.bmc.versions["bmc"] = "1.0"  # somebody took it back
    outcome = lab.run()
    assert (outcome.state, outcome.code) == ("parked", "reverted")
    assert "bmc 1.0" in outcome.reason and lab.states[("bmc", "2.0")] == "failed"


def test_devices_that_are_gone_while_the_host_starts_are_waited_for():
    lab = Lab({"a": component(order=1), "b": component(activation="ac_cycle")})
    inventory = lab.bmc.inventory
    until = []

    def rows(only=None):
        found = inventory(only)
        if lab.bmc.restarts == ["ac_cycle"] and not lab.bmc.pending:
            until.append(lab.clock())
            if lab.clock() < until[0] + 600:
                return [row for row in found if row["id"] == "b"] if until[1:] else found
        return found

    lab.bmc.inventory = rows
    assert lab.run().state == "active" and lab.clock() >= until[0] + 600


def test_a_reset_may_have_to_wait_for_siblings():
    lab = Lab({"cpld": component(activation="ac_cycle")})
    outcome = lab.run(may_activate=lambda activation, steps: "gpu02 in the same chassis is in service")
    assert outcome.state == "awaiting_activation" and "gpu02" in outcome.reason
    assert lab.bmc.restarts == []
    assert lab.run().state == "active"


def test_somebody_else_updates_it_first():
    lab = Lab({"bios": component()})
    lab.bmc.versions["bios"] = "2.0"
    assert lab.run().state == "active" and lab.bmc.arrived == []
    lab = Lab({"bios": component()})
    lab.bmc.versions["bios"] = "1.7"
    outcome = lab.run()
    assert outcome.code == "changed_since_plan" and lab.bmc.arrived == []


def test_an_update_under_way_is_waited_for():
    lab = Lab({"bios": component()})
    lab.bmc.all_tasks["x|1"] = {
        "uri": "/x",
        "at": lab.clock(),
        "component": "bios",
        "version": "1.0",
        "state": "running",
    }
    start = lab.clock()
    assert lab.run().state == "active"
    assert lab.clock() - start >= 40  # its 20 s, then ours


def test_an_update_under_way_that_brings_the_version_is_enough():
    """Somebody else's update of the same component was running: what it brought is looked at before ours is sent."""
    lab = Lab({"bmc": component(activation="immediate")})
    task = {"uri": "/x", "at": lab.clock(), "component": "bmc", "version": "2.0", "state": "running"}
    lab.bmc.all_tasks["x|1"] = task
    assert lab.run().state == "active" and lab.bmc.arrived == []
    lab = Lab({"bios": component()}, shows_staged=True)
    lab.bmc.pending["bios"] = "2.0"
    assert lab.run().state == "active" and lab.bmc.arrived == [] and lab.bmc.restarts == ["host_reboot"]


@pytest.mark.parametrize("faults", [{}, {"task_fails": True}])
def test_a_sign_that_comes_late_is_still_a_sign(faults):
    """The dead controller's image shows up after the time that BMCs get for that, when it is about to be sent again: it is not."""
    lab = Lab({"bmc": component(activation="immediate")}, shown_after=34.0, task_seconds=60.0, **faults)

    def kill(where):
        if where == "answer_not_read":
            raise Killed

    lab.bmc.kill = kill
    with pytest.raises(Killed):
        Engine(lab.bmc, lab.journal, lab.plan, Images(), clock=lab.clock, sleep=lab.clock.sleep).run()
    assert lab.states == {("bmc", "2.0"): "pushing"} and len(lab.bmc.arrived) == 1
    limits = Limits(pause=60)
    outcome = Engine(lab.bmc, lab.journal, lab.plan, Images(), limits, clock=lab.clock, sleep=lab.clock.sleep).run()
    assert outcome.state == ("parked" if faults else "active")
    assert len(lab.bmc.arrived) == 1


def test_the_pause_between_two_images():
    lab = Lab({"a": component(), "b": component()}, task_seconds=0.0)
    engine = Engine(lab.bmc, lab.journal, lab.plan, Images(), Limits(pause=60), clock=lab.clock, sleep=lab.clock.sleep)
    sent, push = [], lab.bmc.push
    lab.bmc.push = lambda *args: (sent.append(lab.clock()), push(*args))[1]
    assert engine.run().state == "active"
    assert sent[1] - sent[0] >= 60


def test_the_pause_after_an_image_of_an_earlier_life():
    """How long ago the dead controller sent its image is not known: the whole pause is waited before the next one."""
    lab = Lab({"a": component(order=1), "b": component(order=2)}, task_seconds=0.0)
    limits = Limits(pause=60)
    sent, push = [], lab.bmc.push
    lab.bmc.push = lambda *args: (sent.append(lab.clock()), push(*args))[1]

    class Died(BaseException):
        pass

    def sleep(seconds):
        if len(sent) == 1:
            raise Died
        lab.clock.sleep(seconds)

    with pytest.raises(Died):
        Engine(lab.bmc, lab.journal, lab.plan, Images(), limits, clock=lab.clock, sleep=sleep).run()
    begun = lab.clock()
    outcome = Engine(lab.bmc, lab.journal, lab.plan, Images(), limits, clock=lab.clock, sleep=lab.clock.sleep).run()
    assert outcome.state == "active" and len(sent) == 2 and sent[1] - begun >= 60


def test_a_bmc_that_is_lost_parks_the_plan_where_it_is():
    lab = Lab({"bios": component()})
    lab.bmc.away_until = 1e9
    outcome = lab.run()
    assert (outcome.state, outcome.code) == ("parked", "bmc_lost")
    assert lab.states == {("bios", "2.0"): "planned"}
    lab.bmc.away_until = 0
    assert lab.run().state == "active"


def test_fenced_out_stops_at_once():
    lab = Lab({"bios": component()})

    def push(*_unused):
        raise FencedOut("newer")

    lab.bmc.push = push
    with pytest.raises(FencedOut):
        lab.run()
    assert lab.bmc.arrived == []


def test_a_refusal_names_itself():
    lab = Lab({"bios": component()})

    def push(*_unused):
        raise BaremetalError("the licence SFT-OOB-LIC is missing", code="license_required", next_step="buy it")

    lab.bmc.push = push
    outcome = lab.run()
    assert (outcome.state, outcome.code, outcome.next_step) == ("parked", "license_required", "buy it")
    assert lab.states == {("bios", "2.0"): "failed"}


def test_consent():
    lab = Lab({"bios": component(can_brick=True)})
    assert consent_refused(lab.plan, "S1", ["S1", "S2"]) is None
    error = consent_refused(lab.plan, "S1", ["S2"])
    assert error.code == "consent_needed" and error.wanted.startswith("consent: [S1]") and error.seen == "S2"
    assert "firmware_baseline_consent" in error.wanted  # what a user of the playbook sets
    assert consent_refused(Lab({"bios": component()}).plan, "S1", None) is None


def test_health_regressions():
    before = {"system": "OK", "fan": "Warning", "psu": "Critical", "x": None}
    assert ports.regressions(before, dict(before)) == []
    assert ports.regressions(
        before, {"system": "Warning", "fan": "OK", "psu": "Critical", "new": "Critical", "x": None}
    ) == ["system: OK -> Warning"]
    assert ports.regressions({"system": "OK"}, {}) == ["system: OK -> gone"]
