# Named faults: the ways in which real BMCs differ or fail, each as a set of behaviour switches, to be laid over a share of a fleet.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

from typing import Any

# name: (switches, what a client sees)
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "session_cap": ({"sessions_taken": True}, "Opening a session is refused: the limit is reached."),
    "lockout": ({"lockout_after": 3, "lockout_s": 600}, "Three wrong passwords lock the account."),
    "session_expiry": ({"session_expires_after": 2}, "A session ends after two requests."),
    "busy": ({"busy_every_n": 3, "retry_after_s": 1}, "Every third request gets 503 with Retry-After in seconds."),
    "busy_date": (
        {"busy_every_n": 3, "retry_after_s": 1, "retry_after_form": "date"},
        "Every third request gets 503 with Retry-After as a date.",
    ),
    "answer_lost": ({"answer_lost_after_post": 1}, "The answer to the first POST is lost after the work was done."),
    "weak_etag": ({"weak_etag": True, "etag_refuses_own_weak": True}, "Entity tags are weak, and refused as they are."),
    "etag_required": ({"etag_required": True}, "A PATCH without If-Match gets 428."),
    "paging": ({"paging": 2}, "Collections come two members at a time."),
    "slash": ({"redirect_slash": True}, "Every path is redirected to itself with a slash (308)."),
    "slash_301": ({"redirect_slash": True, "redirect_status": 301}, "The same with 301, also for POST."),
    "task_gone": ({"task_monitor_gone": True}, "Task and monitor are gone once the work is over."),
    "task_late": ({"task_late_s": 1.0}, "A new task is not found for a second."),
    "task_lies_percent": (
        {"task_lies": "percent", "task_lie_s": 2.0},
        "A task is at 100 % two seconds before it ends.",
    ),
    "task_lies_state": (
        {"task_lies": "state", "task_lie_s": 2.0},
        "A task is Completed two seconds before the work is.",
    ),
    "task_no_location": ({"task_without_location": True}, "202 without Location: the task is in the body."),
    "power_lag": ({"power_lag_s": 4.0, "intermediate_power_states": True}, "Power follows after four seconds."),
    "power_ignored": ({"accept_and_do_nothing": ["power"]}, "Power commands are accepted and ignored."),
    "graceful_ignored": ({"graceful_ignored": True}, "The operating system ignores a graceful shutdown."),
    "no_allowable": (
        {"no_allowable_values": True, "no_action_info": True},
        "Allowable values are neither inline nor in an ActionInfo.",
    ),
    "action_info": ({"no_allowable_values": True}, "Allowable values are only in the ActionInfo."),
    "password_change": ({"password_change_required": True}, "The password must be changed before anything else."),
    "null_members": ({"members_null": True}, "Members of an empty collection is null."),
    "html_504": ({"html_504_every_n": 4}, "Every fourth request gets 504 and a page of HTML."),
    "html_504_always": ({"html_504_every_n": 1}, "Every request gets 504 and a page of HTML."),
    "broken_json": ({"broken_json_every_n": 4}, "Every fourth GET has a body that is no JSON."),
    "slow_section": ({"slow_path": "/FirmwareInventory", "slow_s": 180}, "The firmware inventory takes three minutes."),
    "reset_window": (
        {"manager_reset_s": 3.0, "warmup_s": 2.0},
        "After a reset the BMC is away, then busy for a while.",
    ),
    "hgx_first": ({"two_systems": "hgx_first"}, "The GPU baseboard is the first of two systems."),
    "hgx_last": ({"two_systems": "hgx_last"}, "The GPU baseboard is the second of two systems."),
    "hgx_down": (
        {"two_systems": "hgx_first", "secondary_needs_power": True},
        "The GPU baseboard's system gets 503 while the server is off.",
    ),
    "bios_job": ({"bios_job": True}, "BIOS settings need a job; while one is queued nothing else is taken."),
    "bios_job_stuck": ({"bios_job_stuck": True}, "An old BIOS job blocks the settings until the BMC is reset."),
    "vanished": ({"vanished": ["SriovGlobalEnable"]}, "A BIOS attribute is missing until the BMC is reset."),
    "upload_cut": ({"upload_cut_after": 1000, "upload_cut_times": 1}, "The first upload is cut off."),
    "update_no_effect": ({"update_without_effect": True}, "An update completes and the version stays."),
    "update_fails": ({"task_fails": True}, "Updates end as Exception."),
    "update_answer_late": ({"update_answer_s": 3.0}, "The answer to an image comes three seconds after it arrived."),
    "update_unhealthy": ({"health_after_update": "Critical"}, "The system is Critical once a new image runs."),
    "update_pause": ({"update_pause_s": 2.0}, "Two images in quick succession: out of memory."),
    "update_200": ({"update_answers_200": True}, "An update is answered with 200 and no task."),
    "unlicensed": ({"license_required": ["update", "bios", "media"]}, "Updates, BIOS and media want a licence."),
    "certificate": ({"certificate": "self_signed"}, "The certificate is not the one that was seen before."),
    "refuses": ({"unreachable": "refuse"}, "Nothing listens."),
    "silent": ({"unreachable": "silent"}, "Connections are taken and never answered."),
    "reset_reused": ({"reset_reused": True}, "The second request on a connection is cut."),
    "closes": ({"close_connections": True}, "Every answer closes the connection."),
    "sessions_only": ({"no_basic_auth": True}, "HTTP Basic is refused."),
    "boot_mode_absent": ({"boot_mode": "absent"}, "BootSourceOverrideMode is not there and must not be sent."),
    "boot_mode_required": ({"boot_mode": "required"}, "A boot PATCH without the mode falls back to Legacy."),
    "boot_mode_read_only": ({"boot_mode": "read_only"}, "BootSourceOverrideMode cannot be written."),
    "boot_once_sticks": ({"boot_once_sticks": True}, "A one-time override is kept for ever."),
    "expand_partial": ({"expand_partial": True}, "Expanded members lack Id and Name."),
}


def switches(name: str) -> dict[str, Any]:
    """The switches of a named fault; raises KeyError naming those that there are."""
    if name not in FAULTS:
        raise KeyError(f"there is no fault {name!r} (faults: {', '.join(FAULTS)})")
    return FAULTS[name][0]
