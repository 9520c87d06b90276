# Tasks and jobs as BMCs run them: at last the state counts, never the HTTP status; and where nobody can say, the thing that was to change is read.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
import sushy
from sushy import taskmonitor

from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc import connect, redfish, tasks
from ansible_collections.aicluster.baremetal.plugins.module_utils.bmc.connector import Connector
from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors
from ansible_collections.aicluster.baremetal.plugins.module_utils.core.deadline import Deadline

from .scripted import serving

MONITOR, TASK, UPDATE = "/redfish/v1/TaskMonitors/1", "/redfish/v1/TaskService/Tasks/1", "/redfish/v1/Update"


def task(state, percent=None, **more):
    return {
        "@odata.id": TASK,
        "@odata.type": "#Task.v1_5_0.Task",
        "TaskState": state,
        "PercentComplete": percent,
        **more,
    }


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(tasks, "POLL_S", (0.02, 0.05))
    monkeypatch.setattr(tasks, "GRACE_S", 0.3)
    monkeypatch.setattr(tasks, "LIE_S", 0.1)
    monkeypatch.setattr(redfish, "BACKOFF", (0.05,))
    monkeypatch.setattr(redfish.RedfishClient, "wait_asked", staticmethod(lambda answer: None))


def run(answers, start=None, seconds=3, **more):
    """Send the POST and follow what comes of it; returns (outcome, script)."""
    with serving({f"POST {UPDATE}": start or (202, None, {"Location": MONITOR}), **answers}) as (script, where):
        with connect(where) as client:
            answer = client.post(UPDATE)
            deadline = Deadline(seconds, "test")
            outcome = tasks.follow(client, answer, deadline, thing="an update", **more)
            outcome.warnings = client.warnings
            return outcome, script


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("New", "running"), ("Starting", "running"), ("Running", "running"), ("Pending", "running"), ("Stopping", "running"), ("Downloading", "running"),
        ("Completed", "done"), ("Exception", "failed"), ("Killed", "failed"), ("Cancelled", "failed"), ("Interrupted", "interrupted"),
        ("UserIntervention", "waiting"), ("Suspended", "waiting"),
    ],
)  # fmt: skip
def test_states(state, word):
    assert tasks.state_of({"TaskState": state}) == (word, state)


def test_job_states():
    for state, word in (
        ("Scheduled", "waiting"),
        ("CompletedWithErrors", "failed"),
        ("Failed", "failed"),
        ("RebootPending", "waiting"),
    ):
        assert tasks.state_of({"JobState": state}) == (word, state)
    assert tasks.state_of({"TaskState": None}) == (None, "") and tasks.state_of(None) == (None, "")


def test_a_monitor_from_202_to_its_end():
    outcome, script = run({f"GET {MONITOR}": [(202, None), (202, task("Running", 40)), (204, None)]})
    assert outcome.ok and outcome.percent == 40 and script.count("GET", MONITOR) == 3 and script.count("POST") == 1


def test_a_task_that_answers_200_while_it_runs_is_not_done():
    """The case in which sushy 5.14 ends its wait: a status of 200 with TaskState Running."""
    seen = []
    outcome, script = run(
        {f"GET {TASK}": [task("Running", 10), task("Running", 60), task("Completed", 100)]},
        start=(202, task("New"), {"Location": TASK}),
        progress=lambda percent, said: seen.append((percent, said)),
    )
    assert outcome.ok and script.count("GET", TASK) == 3
    assert seen == [(10, "Running"), (60, "Running"), (100, "Completed")]


def test_a_task_in_the_body_without_location():
    outcome, unused = run({f"GET {TASK}": [task("Running"), task("Completed")]}, start=(202, task("New")))
    assert outcome.ok


def test_the_monitor_ends_and_the_task_says_how():
    messages = [{"Message": "verification of the image failed", "MessageId": "Update.1.0.VerificationFailed"}]
    outcome, unused = run(
        {
            f"GET {MONITOR}": [(202, None), (200, {"note": "done"})],
            f"GET {TASK}": task("Exception", 70, Messages=messages),
        },
        start=(202, task("New"), {"Location": MONITOR}),
    )
    assert outcome.state == "failed" and outcome.messages == ["verification of the image failed"]
    with serving({}) as served, connect(served[1]) as client, pytest.raises(errors.Refused) as caught:
        tasks.require(client, outcome, "update")
    assert (
        caught.value.code == "task_failed"
        and "verification of the image failed" in caught.value.seen
        and caught.value.next_step
    )


def test_a_monitor_that_ends_with_an_error():
    body = {"error": {"@Message.ExtendedInfo": [{"MessageId": "Base.1.0.GeneralError", "Message": "no space"}]}}
    outcome, unused = run({f"GET {MONITOR}": [(202, None), (400, body)]})
    assert outcome.state == "failed" and outcome.messages == ["no space"]


def test_a_new_job_that_is_404_for_a_moment():
    outcome, unused = run({f"GET {MONITOR}": [(404, {}), (404, {}), (202, task("Running")), (200, task("Completed"))]})
    assert outcome.ok


def test_a_vanished_task_is_decided_by_what_it_was_to_change():
    answers = {f"GET {MONITOR}": [(202, task("Running", 90)), (404, {})]}
    looks = [False, False, True]
    outcome, unused = run(answers, verify=lambda: looks.pop(0) if len(looks) > 1 else looks[0])
    assert outcome.ok
    outcome, unused = run(answers)
    assert outcome.state == "gone" and outcome.percent == 90
    outcome, unused = run(answers, verify=lambda: False, seconds=1)
    assert outcome.state == "gone"
    with serving({}) as served, connect(served[1]) as client, pytest.raises(errors.Refused) as caught:
        tasks.require(client, outcome, "update")
    assert caught.value.code == "task_gone"


def test_the_monitor_is_gone_and_the_task_is_there():
    outcome, unused = run(
        {f"GET {MONITOR}": (404, {}), f"GET {TASK}": [task("Running"), task("Completed")]},
        start=(202, task("New"), {"Location": MONITOR}),
    )
    assert outcome.ok


def test_a_hundred_percent_that_is_not_the_end():
    outcome, script = run(
        {f"GET {TASK}": [task("Running", 100)] * 4 + [task("Completed", 100)]}, start=(202, task("New"))
    )
    assert outcome.ok and script.count("GET", TASK) == 5
    outcome, unused = run({f"GET {TASK}": task("Running", 100)}, start=(202, task("New")), verify=lambda: True)
    assert outcome.ok and any("100 %" in text for text in outcome.warnings)
    with pytest.raises(errors.DeadlineExceeded) as caught:
        run({f"GET {TASK}": task("Running", 100)}, start=(202, task("New")), verify=lambda: False, seconds=0.6)
    assert caught.value.code == "task_not_done" and caught.value.seen == "Running, 100 %"


def test_a_restart_of_the_bmc_in_the_middle():
    """Cut connections, 503, an expired session, then the task again."""
    answers = [
        (202, task("Running", 20)),
        ("cut", None),
        ("cut", None),
        ("cut", None),
        (503, {}),
        (500, "<html>"),
        (202, task("Running", 80)),
        (200, task("Completed")),
    ]
    outcome, script = run({f"GET {MONITOR}": answers}, seconds=8)
    assert outcome.ok and script.count("POST") == 1


def test_interrupted_goes_on_or_has_failed():
    outcome, unused = run(
        {f"GET {TASK}": [task("Interrupted"), task("Running"), task("Completed")]}, start=(202, task("New"))
    )
    assert outcome.ok
    outcome, unused = run({f"GET {TASK}": task("Interrupted")}, start=(202, task("New")))
    assert outcome.state == "failed"


def test_a_job_that_waits_for_a_restart():
    outcome, unused = run(
        {
            f"GET {MONITOR}": {
                "@odata.type": "#DellJob.v1_0_0.DellJob",
                "JobState": "Scheduled",
                "Message": "Task successfully scheduled.",
            }
        }
    )
    assert outcome.state == "waiting" and outcome.messages == ["Task successfully scheduled."]


def test_no_task_at_all():
    """SimpleUpdate of several BMCs: 200 and nothing. Done only where it can be seen."""
    outcome, unused = run({}, start=(200, {}))
    assert outcome.state == "gone"
    outcome, unused = run({}, start=(204, None), verify=lambda: True)
    assert outcome.ok


def test_a_location_that_names_what_was_made_is_no_task():
    made = redfish.Answer(201, {"Location": "/redfish/v1/Systems/1/Storage/1/Volumes/3"}, {"Id": "3"})
    assert not tasks.handle_of(made)
    job = redfish.Answer(200, {"Location": "/redfish/v1/Managers/iDRAC.Embedded.1/Jobs/JID_1"}, None)
    assert tasks.handle_of(job).monitor.endswith("JID_1")
    away = redfish.Answer(202, {"Location": "https://10.9.9.9/redfish/v1/TaskMonitors/7?x=1"}, None)
    assert tasks.handle_of(away).monitor == "/redfish/v1/TaskMonitors/7?x=1"


def test_the_faults_of_sushy_that_this_file_is_for():
    """sushy 5.14: a running task is called finished because its status is 200, and a numeric Retry-After ends its wait() with a TypeError. When this test
    fails, sushy was mended, and its TaskMonitor may be used again."""
    with serving(
        {f"GET {TASK}": task("Running", 10), f"GET {MONITOR}": (202, task("Running", 10), {"Retry-After": "1"})}
    ) as (unused, where):
        connector = Connector(where)
        try:
            running = taskmonitor.TaskMonitor(connector, TASK)
            assert running.check_is_processing is False
            waiting = taskmonitor.TaskMonitor(connector, MONITOR)
            with pytest.raises((TypeError, sushy.exceptions.SushyError)) as caught:
                waiting.wait(0.1)
            assert caught.type is TypeError
        finally:
            connector.close()
        with connect(where) as client, pytest.raises(errors.DeadlineExceeded):
            tasks.follow(client, TASK, Deadline(0.3, "test"))
