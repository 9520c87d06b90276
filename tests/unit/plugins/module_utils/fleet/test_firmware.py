# A node's firmware against the simulator and a real registry; controllers that are killed with SIGKILL at any moment.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import pytest
import yaml

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.endpoint import Endpoint
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors, process
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import baseline as files
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.engine import Limits
from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware.serve import ImageServer
from ansible_collections.aicluster.baremetal.plugins.module_utils.fleet import firmware as subject
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry
from bmc_simulator import testing

RUN = pathlib.Path(__file__).resolve().parents[4] / "support" / "firmware_run.py"
QUICK = {"poll": 0.1, "settle": 0.5, "ready": 20.0, "effect": 20.0, "activate": 20.0, "full": 0.5, "blind": 1.0}
COMPONENTS = {
    "BMC": {"version": "1.0", "activation": "bmc_reset", "auto": True},
    "BIOS": {"version": "1.0", "activation": "host_reboot"},
    "CPLD": {"version": "1.0", "activation": "ac_cycle"},
}
# three components, two hops, three kinds of activation
NEEDED = {"BMC": ["1.5", "2.0"], "BIOS": ["1.5", "2.0"], "CPLD": ["2.0"]}
WANTED = {"BMC": "2.0", "BIOS": "2.0", "CPLD": "2.0"}


class Site:
    """A simulator, a registry with its node, and a baseline with real image files."""

    def __init__(self, place, lab, sizes=700_000):
        self.place, self.lab = place, lab
        self.url = f"sqlite:///{place}/registry.db"
        self.registry = open_registry(self.url, migrate=True)
        self.bmc = lab["gpu01"]
        self.registry.save_node(self.bmc.serial, "test", name="gpu01", platform="p", state="manageable")
        self.sizes = sizes
        self.baseline_path = place / "baseline.yml"
        self.write()

    def image(self, component, version, **more):
        path = self.place / f"{component}-{version}.bin"
        path.write_bytes(testing.firmware_image(component, version, size=self.sizes, **more))
        return {"path": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    def write(self, **changes):
        def hop(component):
            return {"from": "<1.5", "via": "1.5", "image": self.image(component, "1.5")}

        components = {
            "bmc": {
                "inventory": "^BMC$",
                "wanted": "2.0",
                "image": self.image("BMC", "2.0", accepts=[">=1.5"]),
                "activation": "immediate",
                "hops": [hop("BMC")],
                "order": 1,
            },
            "bios": {
                "inventory": "^BIOS$",
                "wanted": "2.0",
                "image": self.image("BIOS", "2.0", accepts=[">=1.5"]),
                "activation": "host_reboot",
                "hops": [hop("BIOS")],
                "requires": {"bmc": ">=2.0"},
            },
            "cpld": {
                "inventory": "^CPLD$",
                "wanted": "2.0",
                "image": self.image("CPLD", "2.0"),
                "activation": "ac_cycle",
                "requires": {"bmc": ">=1.5"},
            },
        }
        for name, more in changes.items():
            components[name].update(more)
        platform = {"pause_s": 0, "settle_s": QUICK["settle"], "components": components}
        self.baseline_path.write_text(yaml.safe_dump({"schema": 1, "name": "test-1", "platforms": {"p": platform}}))

    def endpoint(self):
        return {
            "address": self.bmc.address,
            "port": self.bmc.port,
            "username": self.bmc.username,
            "password": self.bmc.password,
            "fingerprint": self.bmc.fingerprint,
            "name": "gpu01",
        }

    def run(self, check=False, **options):
        limits = Limits(**QUICK)
        return subject.update(
            Endpoint(**self.endpoint()),
            self.registry,
            "gpu01",
            files.load(str(self.baseline_path)),
            subject.Options(limits=limits, **options),
            actor="test",
            check=check,
        )

    def start(self, **options):
        """A controller as a process of its own."""
        config = {
            "registry": self.url,
            "node": "gpu01",
            "endpoint": self.endpoint(),
            "baseline": str(self.baseline_path),
            "limits": QUICK,
            "options": options,
        }
        # a controller of its own: what this process says of itself to the programs that it starts is not for it
        environment = {key: value for key, value in os.environ.items() if key != "AICLUSTER_CONTROLLER_PID"}
        child = subprocess.Popen(
            [sys.executable, str(RUN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        child.stdin.write(json.dumps(config))
        child.stdin.close()
        child.stdin = None
        return child

    @property
    def arrived(self):
        """{component: [version, ...]} of the images that arrived whole, in order."""
        found = {}
        for row in self.lab.control.call("images").get("gpu01", []):
            for component, version in row.get("components", {}).items():
                found.setdefault(component, []).append(version)
        return found

    @property
    def running(self):
        return self.lab.state("gpu01")["firmware"]


@pytest.fixture
def site(tmp_path):
    with testing.running([testing.node_config(1, components=COMPONENTS)]) as lab:
        found = Site(tmp_path, lab)
        yield found
        found.registry.close()


def test_to_the_baseline_and_a_second_run(site):
    planned = site.run(check=True)
    assert planned["changed"] and planned["state"] == "planned" and planned["resets"] == 2
    assert site.arrived == {} and site.registry.firmware_plans("gpu01") == [] and site.registry.evidence("gpu01") == []
    assert 'firmware.bmc: "1.0"' in planned["diff"]["before"] and 'firmware.bmc: "2.0"' in planned["diff"]["after"]
    assert "push cpld 1.0 -> 2.0" in planned["diff"]["after"]
    result = site.run()
    assert result["changed"] and result["state"] == "active" and not result.get("failed"), result
    assert site.running == WANTED and site.arrived == NEEDED
    assert all(step["state"] == "active" and step["pushes"] == 1 for step in result["steps"])
    assert site.registry.firmware_plan("gpu01") is None
    assert site.registry.firmware_plans("gpu01")[0]["state"] == "done"
    evidence = site.registry.evidence("gpu01")[-1]
    assert (evidence["check"], evidence["outcome"], evidence["value"]["cpld"]) == ("firmware_baseline", "pass", "2.0")
    assert evidence["simulated"]  # as the simulated BMC says of itself
    assert site.lab.state("gpu01")["sessions"] == 0 and site.lab.state("gpu01")["power"] == "Off"  # as it was
    facts = site.registry.node("gpu01")["facts"]  # what the next discovery would read
    assert facts["bmc"]["firmware"] == "2.0" and {row["version"] for row in facts["firmware"]} == {"2.0"}
    assert {part["kind"] for part in site.registry.parts("gpu01")} == {"cpu", "memory", "nic", "drive", "gpu"}
    rows = len(site.registry.audit_rows())
    again = site.run()
    assert not again["changed"] and again["state"] == "active" and site.arrived == NEEDED
    assert len(site.registry.audit_rows()) == rows  # and leaves no trace
    assert not site.run(check=True)["changed"]


def test_downgrade_consent_and_problems(site):
    site.write(
        bios={"wanted": "0.9", "hops": [], "requires": {}, "image": site.image("BIOS", "0.9")}, cpld={"can_brick": True}
    )
    planned = site.run(check=True, components=["bios"])
    assert not planned["changed"] and planned["not_planned"][0]["code"] == "newer_runs"
    result = site.run(components=["cpld"])
    assert result["error"]["code"] == "plan_incomplete"  # it requires the BMC's firmware, which is not asked for
    result = site.run()
    assert result["error"]["code"] == "consent_needed" and site.bmc.serial in result["error"]["wanted"]
    assert result["msg"].startswith("gpu01: cpld: ")
    assert not result["changed"] and result["plan"]
    planned = site.run(check=True)
    line = f"!  cpld: can brick, needs consent for {site.bmc.serial}"
    assert planned["consent_missing"] == ["cpld"] and planned["would_refuse"].startswith("gpu01: cpld: ")
    assert any(row.startswith(line) for row in planned["plan"]) and line in planned["diff"]["after"]
    planned = site.run(check=True, consent=[site.bmc.serial])
    assert planned["consent_missing"] == [] and "!" not in planned["diff"]["after"] and not planned["would_refuse"]
    # another reason for a refusal hides neither itself nor the consent that is missing
    site.write(bios={"from": ">=1.5", "hops": []}, cpld={"can_brick": True})
    planned = site.run(check=True)
    assert "!  a real run is refused: gpu01: bios: " in planned["diff"]["after"] and line in planned["diff"]["after"]
    assert site.arrived == {}
    site.write(
        bios={"wanted": "0.9", "hops": [], "requires": {}, "image": site.image("BIOS", "0.9")}, cpld={"can_brick": True}
    )
    result = site.run(components=["bios"], downgrade=True)
    assert result["state"] == "active" and site.running["BIOS"] == "0.9"


def test_evidence_says_what_runs(site):
    """A newer version is no wanted one, and a baseline of which a part cannot be reached is not passed."""
    site.write(
        bmc={"wanted": "0.9", "hops": []},
        bios={"requires": {}},
        cpld={"requires": {}, "from": ">=9", "can_brick": True},
    )
    for _run in range(2):
        assert not site.run(partial=True).get("failed")
        (evidence,) = [row for row in site.registry.evidence("gpu01") if row["check"] == "firmware_baseline"]
        assert evidence["outcome"] == "fail" and evidence["detail"]["problems"] == ["cpld"]
        assert evidence["value"] == {"bmc": "1.0", "bios": "2.0", "cpld": "1.0"}
    assert not site.run(components=["bmc", "bios"]).get("failed")
    (evidence,) = [row for row in site.registry.evidence("gpu01") if row["check"] == "firmware_baseline"]
    assert evidence["outcome"] == "pass" and evidence["value"] == {"bmc": "1.0", "bios": "2.0"}


def test_nodes_that_are_alike_are_planned_once(site, monkeypatch):
    """Check mode (consent of a rollout) and the real run, and every node with the same versions: one search, of which each gets its own copy."""
    from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import planner

    made, plan = [], planner.plan
    monkeypatch.setattr(planner, "plan", lambda *args: (made.append(args), plan(*args))[1])
    baseline = files.load(str(site.baseline_path))

    def run(check, **options):
        chosen = subject.Options(limits=Limits(**QUICK), **options)
        node = Endpoint(**site.endpoint())
        return subject.update(node, site.registry, "gpu01", baseline, chosen, actor="test", check=check)

    first, second = run(True), run(True)
    assert first["plan"] == second["plan"] and len(made) == 1
    run(True, components=["bmc"])
    run(True, downgrade=True)
    assert len(made) == 3
    assert run(False)["state"] == "active" and len(made) == 3
    assert not run(True)["changed"] and len(made) == 4  # other versions run now


def test_consent_that_is_missing_for_many_is_one_message():
    missing = {f"gpu{number:04}": (f"S{number:04}", ["cpld"]) for number in range(2000)}
    error = subject.consent_incomplete(missing, ["S9"])
    text = str(error)
    assert "S0019" in text and "S0020" not in text and "1980 more" in text and len(text) < 1500
    assert (
        "consent is missing for 2000 of the nodes" in text and "firmware_baseline_consent" in text and error.next_step
    )
    one = subject.consent_incomplete({"gpu01": ("S1", ["bmc", "cpld"])})
    assert one.host == "gpu01" and "bmc, cpld" in one.message and "more" not in str(one) and one.seen == "no consent"


@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        (lambda s: (s.place / "CPLD-2.0.bin").write_bytes(b"other"), "image_mismatch"),
        (lambda s: (s.place / "CPLD-2.0.bin").unlink(), "not_found"),
        (lambda s: s.lab.set_behaviour("gpu01", null_properties=["Version"]), "plan_incomplete"),
    ],
)
def test_refused_before_anything_is_sent(site, prepare, code):
    prepare(site)
    try:
        error = site.run()["error"]
    except errors.BaremetalError as caught:
        error = caught.as_result()["error"]
    assert error["code"] == code and error["next_step"] and error["host"] == "gpu01"
    planned = site.run(check=True)
    assert planned["would_refuse"] and "# !  a real run is refused: gpu01: " in planned["diff"]["after"]
    assert site.arrived == {} and site.registry.firmware_plan("gpu01") is None


def test_another_server_behind_the_address(site):
    site.registry.save_node("OTHER", "test", name="gpu09", platform="p", state="manageable")
    with pytest.raises(errors.Refused) as caught:
        subject.update(Endpoint(**site.endpoint()), site.registry, "gpu09", files.load(str(site.baseline_path)))
    assert caught.value.code == "wrong_server" and caught.value.seen == site.bmc.serial


def test_platform_by_the_patterns_unless_a_person_named_it(site):
    """Discovery calls the platform after the model where nobody gave one."""
    text = site.baseline_path.read_text()
    site.baseline_path.write_text(
        text.replace("platforms:\n  p:", "platforms:\n  p:\n    match: {model: ^Virtual GPU}")
    )
    site.registry.save_node("LAB-test-0001", "test", platform="virtual-gpu-server")
    assert site.run(check=True)["platform"] == "p"
    site.registry.save_node("LAB-test-0001", "test", platform="apart")
    with pytest.raises(errors.NotFound, match="platform apart"):
        site.run(check=True)


def test_a_node_in_service_is_left_alone(site, monkeypatch):
    monkeypatch.setattr(subject, "QUIET_STATES", ("available",))
    assert site.run()["error"]["code"] == "node_in_service" and site.arrived == {}
    assert "manageable" in site.run(check=True)["would_refuse"]


def test_parked_and_retried(site):
    site.lab.set_behaviour("gpu01", task_fails=True)
    result = site.run()
    assert result["failed"] and result["error"]["code"] == "task_failed" and result["state"] == "parked"
    assert site.arrived == {"BMC": ["1.5"]}
    assert site.registry.evidence("gpu01")[-1]["outcome"] == "fail"
    site.lab.reset_behaviour("gpu01")
    again = site.run()
    assert again["failed"] and again["error"]["code"] == "parked" and not again["changed"]
    assert "BMC's log" in again["error"]["next_step"] and "could not write" in again["steps"][0]["reason"]
    assert site.arrived == {"BMC": ["1.5"]}
    why = site.registry.why("gpu01")
    assert [entry["code"] for entry in why] == ["state_manageable", "firmware_parked"]
    assert "stopped after 0 of 5 images, bmc is failed: " in why[1]["text"] and "could not write" in why[1]["text"]
    assert "BMC's log" in why[1]["next_step"] and "retry" in why[1]["next_step"]
    result = site.run(retry=True)
    assert [step["reason"] for step in result["steps"]] == [None] * 5
    assert [entry["code"] for entry in site.registry.why("gpu01")] == ["state_manageable"]
    assert result["state"] == "active" and site.running == WANTED
    assert site.arrived == {**NEEDED, "BMC": ["1.5", "1.5", "2.0"]}


def test_a_retry_that_is_refused_leaves_the_plan_parked(site):
    """Consent and images are looked at first: a run that may not begin takes nothing of what the stopped one left."""
    site.lab.set_behaviour("gpu01", task_fails=True)
    site.run()
    site.lab.reset_behaviour("gpu01")
    before = site.registry.firmware_plan("gpu01")
    assert before["state"] == "parked" and "could not write" in before["reason"]
    site.write(cpld={"can_brick": True})
    assert site.run(retry=True)["error"]["code"] == "consent_needed"
    assert site.registry.firmware_plan("gpu01") == before
    site.write()
    image = site.place / "CPLD-2.0.bin"
    kept = image.read_bytes()
    image.unlink()
    assert site.run(retry=True)["error"]["code"] == "not_found"
    site.write(bmc={"from": ">=9", "hops": []}, bios={"requires": {}, "from": ">=9", "hops": []})
    assert site.run(retry=True, components=["bmc", "bios"])["error"]["code"] == "plan_incomplete"
    assert site.registry.firmware_plan("gpu01") == before and site.arrived == {"BMC": ["1.5"]}
    assert site.run()["error"]["seen"] == before["reason"]
    site.write()
    image.write_bytes(kept)
    assert site.run(retry=True)["state"] == "active" and site.running == WANTED
    assert [row["state"] for row in site.registry.firmware_plans("gpu01")] == ["superseded", "done"]


def test_check_mode_with_retry_foretells_what_the_real_run_does(site):
    """An image of which nobody knows whether it arrived is looked at again, by the plan that sent it: no new plan, no consent for one."""
    from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import planner

    baseline = files.load(str(site.baseline_path))
    rows = [{"id": name, "version": row["version"]} for name, row in COMPONENTS.items()]
    stored = planner.plan(baseline, baseline.platforms["p"], rows)
    saved = site.registry.save_firmware_plan("gpu01", stored.as_dict(), "test")
    site.registry.set_firmware_step(
        saved["id"], 1, 1, "planned", "unknown", {"final": True, "tasks_before": [], "reason": "nobody knows"}
    )
    site.registry.end_firmware_plan(saved["id"], 1, "parked", "nobody knows")
    site.write(cpld={"can_brick": True})
    assert site.run(check=True)["error"]["code"] == "parked"
    before = site.registry.firmware_plan("gpu01")
    planned = site.run(check=True, retry=True)
    assert planned["plan"][0].startswith(f"resumes firmware plan {saved['id']}: 0 of 5 images are done")
    assert planned["consent_missing"] == [] and planned["would_refuse"] is None
    assert planned["steps"][0]["state"] == "pushing"
    assert site.registry.firmware_plan("gpu01") == before
    result = site.run(retry=True)
    assert result["state"] == "active" and site.running == WANTED
    assert [row["id"] for row in site.registry.firmware_plans("gpu01")] == [saved["id"]]


def left_behind(site, states, **health):
    """A plan for the baseline as it is, of a controller that is dead; its steps are moved to `states`."""
    from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import planner

    baseline = files.load(str(site.baseline_path))
    rows = [{"id": name, "version": version} for name, version in site.running.items()]
    stored = planner.plan(baseline, baseline.platforms["p"], rows)
    me = process.this_controller()
    dead = dataclasses.replace(me, started=me.started + 1)
    before = {"health": health, "power": "off"}
    saved = site.registry.save_firmware_plan("gpu01", stored.as_dict(), "dead", owner=dead, health=before)
    for step, state in zip(stored.steps, states):
        site.registry.set_firmware_step(saved["id"], 1, step.number, "planned", state, {"final": False})
    return saved


def test_a_new_baseline_while_an_image_is_under_way(site):
    """The plan of the dead run is brought to its end; then this run does what it is asked for, and does not call the old baseline success."""
    saved = left_behind(site, ["pushing"])
    site.write(cpld={"wanted": "2.1", "image": site.image("CPLD", "2.1")})
    planned = site.run(check=True)
    assert "then baseline test-1 is planned anew" in planned["plan"][0]
    result = site.run()
    assert result["state"] == "active" and result["changed"] and site.running == {**WANTED, "CPLD": "2.1"}
    assert f"firmware plan {saved['id']} of an earlier run was brought to its end first" in result["notes"]
    assert [row["state"] for row in site.registry.firmware_plans("gpu01")] == ["done", "done"]
    assert not site.run()["changed"]


def test_killed_between_the_last_image_and_the_end_of_its_plan(site, monkeypatch):
    """All images are active and nobody compared the health: that is not left out because the controller died."""
    site.run()
    site.write(bmc={"wanted": "2.1", "image": site.image("BMC", "2.1")})
    left_behind(site, ["active"], system="OK", fan="OK")
    site.write()  # what that image brought
    with site.registry._db.engine.begin() as connection:
        (row,) = connection.exec_driver_sql("SELECT id, plan FROM firmware_plans WHERE ended IS NULL").fetchall()
        text = row[1].replace('"2.1"', '"2.0"')
        connection.exec_driver_sql("UPDATE firmware_plans SET plan = ? WHERE id = ?", (text, row[0]))
    monkeypatch.setattr(subject.RedfishUpdater, "health", lambda self: {"system": "OK", "fan": "Critical"})
    result = site.run()
    assert result["error"]["code"] == "health_regressed" and "fan: OK -> Critical" in result["error"]["seen"]
    assert site.registry.firmware_plan("gpu01") is None and not site.run()["changed"]


def test_a_new_baseline_while_nothing_is_under_way(site):
    site.lab.set_behaviour("gpu01", task_fails=True)
    site.run()
    site.lab.reset_behaviour("gpu01")
    site.write(cpld={"wanted": "2.1", "image": site.image("CPLD", "2.1")})
    result = site.run(retry=True)
    assert result["state"] == "active" and site.running["CPLD"] == "2.1"
    assert [row["state"] for row in site.registry.firmware_plans("gpu01")] == ["superseded", "done"]


def test_health_that_got_worse(site, monkeypatch):
    words = iter([{"system": "OK"}, {"system": "Critical"}])
    monkeypatch.setattr(subject.RedfishUpdater, "health", lambda self: next(words))
    result = site.run()
    assert result["failed"] and result["error"]["code"] == "health_regressed"
    assert result["health_worse"] == ["system: OK -> Critical"] and site.running == WANTED


def test_a_bmc_that_only_pulls(site):
    site.lab.set_behaviour("gpu01", update_methods=["simple"])
    planned = site.run(check=True)
    assert planned["changed"] and "no way to send this image" in planned["would_refuse"]
    result = site.run()
    assert result["failed"] and result["error"]["code"] == "no_update_method" and not result["changed"]
    assert site.registry.firmware_plan("gpu01") is None  # nothing was begun, so there is nothing to retry
    with ImageServer("127.0.0.1") as server:
        assert site.run(check=True, publish=server.publish)["would_refuse"] is None
        result = site.run(publish=server.publish)
    assert result["state"] == "active" and site.arrived == NEEDED


def test_a_controller_that_lives_is_not_disturbed(site):
    site.lab.set_behaviour("gpu01", task_seconds=3.0)
    child = site.start()
    try:
        end = time.monotonic() + 20
        while not site.registry.firmware_plan("gpu01") and time.monotonic() < end:
            time.sleep(0.05)
        with pytest.raises(errors.Conflict) as caught:
            site.run()
        assert caught.value.code == "plan_claimed"
        assert "another controller works on the firmware" in site.run(check=True)["would_refuse"]
    finally:
        child.kill()
        child.communicate()


# What the BMC does wrong, and whether the node must get there all the same.
FAULTS = {
    "healthy": {},
    "tasks vanish": {"task_monitor_gone": True},
    "task in the body": {"task_without_location": True},
    "task stays at 100 %": {"task_lies": "percent", "task_lie_s": 0.8},
    "task says completed too early": {"task_lies": "state", "task_lie_s": 0.3},
    "loses answers": {"answer_lost_after_post": 3},
    "cuts uploads": {"upload_cut_after": 100_000, "upload_cut_times": 3},
    "busy": {"busy_every_n": 7, "retry_after_s": 1},
    "push only": {"update_methods": ["push"]},
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_killed_at_random_moments_and_run_again(site, fault):
    """SIGKILL at random moments until one life reaches the end: the baseline runs, and not one image more than needed was sent."""
    site.lab.set_behaviour("gpu01", **FAULTS[fault])
    chance, kills = random.Random(fault), 0
    for _life in range(40):
        child = site.start()
        try:
            out, err = child.communicate(timeout=chance.uniform(0.5, 1.7) if kills < 5 else 60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            kills += 1
            continue
        assert child.returncode == 0, err[-3000:]
        result = json.loads(out)
        break
    assert not result.get("failed"), result
    assert kills >= 2
    assert site.running == WANTED
    assert site.arrived == NEEDED
    assert site.registry.verify_audit()["ok"]


def test_killed_right_before_the_intent_and_right_after_it(site):
    """The dead controller's record is taken over: an intent without an answer, and no image on the BMC."""
    plan = site.run(check=True)
    me = process.this_controller()
    dead = dataclasses.replace(me, started=me.started + 1)
    from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import planner

    baseline = files.load(str(site.baseline_path))
    rows = [{"id": name, "version": row["version"]} for name, row in COMPONENTS.items()]
    stored = planner.plan(baseline, baseline.platforms["p"], rows)
    assert stored.lines() == plan["plan"]
    saved = site.registry.save_firmware_plan("gpu01", stored.as_dict(), "dead", owner=dead)
    site.registry.set_firmware_step(
        saved["id"], 1, 1, "planned", "pushing", {"method": "multipart", "tasks_before": [], "final": True}, pushed=True
    )
    result = site.run()
    assert result["state"] == "active" and site.arrived == NEEDED
    assert [step["pushes"] for step in result["steps"] if step["component"] == "bmc"] == [2, 1]


def test_killed_between_a_failed_step_and_the_end_of_its_plan(site):
    """The step says that the image could not be written, the plan is still open: nothing is sent again before a person says so."""
    site.lab.set_behaviour("gpu01", task_fails=True)
    assert site.run()["state"] == "parked" and site.arrived == {"BMC": ["1.5"]}
    plan = site.registry.firmware_plan("gpu01")
    reason, me = plan["reason"], process.this_controller()
    site.registry.end_firmware_plan(plan["id"], plan["claim"], "open", None)
    with site.registry._db.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE firmware_plans SET owner_started = ?", (me.started + 1,))
    for check in (True, False):
        again = site.run(check=check)
        assert again["failed"] and again["error"]["code"] == "parked" and not again["changed"], again
        assert again["error"]["seen"] == reason
    assert site.arrived == {"BMC": ["1.5"]}
    assert site.registry.firmware_plan("gpu01")["state"] == "parked"
    site.lab.set_behaviour("gpu01", task_fails=False)
    assert site.run(retry=True)["state"] == "active" and site.running == WANTED


def test_check_mode_shows_what_is_left_of_a_plan_that_a_dead_run_began(site):
    """With the versions as they are read, not as they were when the plan was made."""
    from ansible_collections.aicluster.baremetal.plugins.module_utils.firmware import planner

    baseline = files.load(str(site.baseline_path))
    rows = [{"id": name, "version": row["version"]} for name, row in COMPONENTS.items()]
    stored = planner.plan(baseline, baseline.platforms["p"], rows)
    site.write(bmc={"wanted": "1.5", "hops": [], "image": site.image("BMC", "1.5")}, bios={"requires": {}})
    assert site.run(components=["bmc"])["state"] == "active" and site.arrived == {"BMC": ["1.5"]}
    site.write()
    me = process.this_controller()
    saved = site.registry.save_firmware_plan(
        "gpu01", stored.as_dict(), "dead", owner=dataclasses.replace(me, started=me.started + 1)
    )

    def move(number, *states):
        for before, after in zip(states, states[1:]):
            site.registry.set_firmware_step(saved["id"], 1, number, before, after, {"final": True})

    assert [step.to_version for step in stored.steps if step.component == "bmc"] == ["1.5", "2.0"]
    first, second = [step.number for step in stored.steps if step.component == "bmc"]
    move(first, "planned", "pushing", "writing", "active")
    move(second, "planned", "pushing")
    planned = site.run(check=True)
    printed = planned["diff"]
    assert 'firmware.bmc: "1.5"' in printed["before"] and 'firmware.bmc: "2.0"' in printed["after"]
    assert f"# resumes firmware plan {saved['id']}: 1 of 5 images are done" in printed["after"]
    assert "push bmc 1.0 -> 1.5" not in printed["after"] and "push bmc 1.5 -> 2.0" in printed["after"]
    assert "only where the BMC shows that it did not arrive" in printed["after"]
    assert planned["plan"][0].startswith("resumes firmware plan") and "1 of 5" in planned["msg"]
    assert planned["components"]["bmc"]["running"] == "1.5" and planned["changed"]
    assert site.registry.firmware_plan("gpu01")["claim"] == saved["claim"]  # nothing was taken over
    move(second, "pushing", "writing", "staged")
    assert planner.ARRIVED in site.run(check=True)["diff"]["after"]
    assert site.arrived == {"BMC": ["1.5"]}


@pytest.mark.parametrize(
    ("text", "size", "limit"),
    [("4", 100, 4), ("10%", 64, 6), ("10%", 5, 1), ("100%", 8, 8), (3, 2, 3), ("0.5%", 1000, 5)],
)
def test_limits(text, size, limit):
    assert subject.limit_of(text, size) == limit


@pytest.mark.parametrize("text", ["0", "-1", "x", "0%", "101%", "1.5", ""])
def test_limits_that_make_no_sense(text):
    with pytest.raises(errors.InvalidInput):
        subject.parse_limit(text)


def test_group_limits():
    groups = {f"gpu{number:02d}": "r1" if number <= 20 else "r2" for number in range(1, 24)}
    assert subject.group_limits(groups, "10%") == {"r1": 2, "r2": 1}


def in_stage(site, check=False, **options):
    return subject.update_in_stage(
        Endpoint(**site.endpoint()),
        site.registry,
        "gpu01",
        files.load(str(site.baseline_path)),
        subject.Options(limits=Limits(**QUICK), **options),
        states=("manageable", "available"),
        actor="test",
        check=check,
    )


def test_the_stage(site):
    assert in_stage(site, check=True)["changed"] and site.registry.node("gpu01")["state"] == "manageable"
    result = in_stage(site)
    assert result["changed"] and site.running == WANTED and site.registry.node("gpu01")["state"] == "available"
    attempt = site.registry.attempts("gpu01")[-1]
    assert (attempt["stage"], attempt["outcome"]) == ("firmware", "pass")
    assert "active" in {step["detail"].rsplit(" ", 1)[-1] for step in site.registry.steps(attempt["id"])}
    rows = len(site.registry.audit_rows())
    assert not in_stage(site)["changed"] and len(site.registry.audit_rows()) == rows


def test_the_stage_fails_and_is_retried(site):
    site.lab.set_behaviour("gpu01", task_fails=True)
    result = in_stage(site)
    assert result["failed"] and site.registry.node("gpu01")["state"] == "updating_failed"
    why = site.registry.why("gpu01")
    assert "could not write the image" in why[0]["text"] and "firmware_retry_failed=true" in why[0]["next_step"]
    assert why[1]["code"] == "firmware_parked" and "BMC's log" in why[1]["next_step"]
    assert in_stage(site)["skipped"]
    site.lab.reset_behaviour("gpu01")
    assert in_stage(site, retry=True)["changed"]
    assert site.registry.node("gpu01")["state"] == "available" and site.running == WANTED


def test_the_stage_leaves_alone_what_is_not_its_own(site):
    site.registry.hold("gpu01", "me", "I look at it", "tomorrow", actor="me")
    assert in_stage(site)["msg"].startswith("held by me")
    assert in_stage(site, check=True)["skipped"]
    site.registry.release("gpu01", "me", "me")
    site.registry.save_node("S7", "test", name="gpu07")
    assert site.arrived == {} and site.registry.firmware_plan("gpu01") is None


def test_a_reset_by_hand_leaves_the_attempt_open(site, monkeypatch):
    def refuse(_self, activation):
        raise errors.Unsupported("the BMC cannot take its own power away", thing=activation)

    with monkeypatch.context() as patched:
        patched.setattr(subject.RedfishUpdater, "_cycle", refuse)
        result = in_stage(site)
    assert result["error"]["code"] == "awaiting_activation" and "ac_cycle" in result["msg"]
    assert (
        site.registry.node("gpu01")["state"] == "updating"
        and site.registry.evidence("gpu01")[-1]["outcome"] == "could_not_test"
    )
    why = site.registry.why("gpu01")
    assert why[0]["code"] == "firmware_waits" and "cpld is awaiting activation" in why[0]["text"]
    assert why[0]["next_step"] == "do the ac_cycle, then run again: the versions are read back"
    sent = site.arrived
    site.lab.control.call("cut_power", node="gpu01")
    site.lab.wait("gpu01", lambda state: state["firmware"]["CPLD"] == "2.0")
    assert in_stage(site)["state"] == "active"
    assert site.arrived == sent and site.registry.node("gpu01")["state"] == "available"


def test_siblings_in_one_chassis(site):
    site.write(cpld={"siblings": "chassis"})
    site.registry.save_node("S2", "test", name="gpu02", state="manageable")
    begun = site.registry.begin("gpu02", "firmware", actor="x")
    site.registry.finish("gpu02", begun.attempt, begun.fencing, "pass", "x")
    site.registry.begin("gpu02", "deploy", actor="x")
    result = site.run(siblings=["gpu01", "gpu02"])
    assert (
        result["error"]["code"] == "awaiting_activation" and "gpu02 in the same chassis is deploying" in result["msg"]
    )
    assert site.running == {"BMC": "2.0", "BIOS": "2.0", "CPLD": "1.0"}
