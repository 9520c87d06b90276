# From one result for each host to what a play needs: who failed, how, and which hosts the next play must fail.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations


def summarise(hosts, results, skipped=(), wall_s=0.0):
    """`hosts`: all that were asked for, in order; `results`: {host: result}; `skipped`: hosts that were not selected.

    `failing` are the hosts that did not end well and one that did: a play over these fails exactly the former and the run goes on, while a play in which
    every host fails ends the run for everybody.
    """
    skipped = set(skipped)
    found = {
        "failed_hosts": [],
        "unreachable_hosts": [],
        "not_tried_hosts": [],
        "changed_hosts": [],
        "skipped_hosts": [host for host in hosts if host in skipped],
    }
    good = survivor = None
    for host in hosts:
        result = results.get(host)
        if result is None:
            survivor = survivor or host
            continue
        code = (result.get("error") or {}).get("code")
        if not result.get("failed"):
            good = good or host
            if result.get("changed"):
                found["changed_hosts"].append(host)
        elif code == "unreachable":
            found["unreachable_hosts"].append(host)
        elif code == "not_tried":
            found["not_tried_hosts"].append(host)
        else:
            found["failed_hosts"].append(host)
    bad = set(found["failed_hosts"] + found["unreachable_hosts"] + found["not_tried_hosts"])
    failing = [host for host in hosts if host in bad]
    found["reasons"] = {host: str(results[host].get("msg") or "no reason was given") for host in failing}
    survivor = good or survivor
    found["failing"] = failing + [survivor] if failing and survivor else failing
    found["counts"] = {
        "hosts": len(hosts),
        "selected": len(results),
        "ok": len(results) - len(bad),
        "changed": len(found["changed_hosts"]),
        "failed": len(found["failed_hosts"]),
        "unreachable": len(found["unreachable_hosts"]),
        "not_tried": len(found["not_tried_hosts"]),
        "skipped": len(found["skipped_hosts"]),
    }
    found["changed"] = bool(found["changed_hosts"])
    found["seconds"] = round(wall_s, 2)
    found["msg"] = sentence(found["counts"], wall_s)
    return found


def sentence(counts, wall_s):
    """ "198 of 200 nodes ok (150 changed), 2 failed, in 3.1 s"."""
    text = f"{counts['ok']} of {counts['selected']} nodes ok ({counts['changed']} changed)"
    for key in ("failed", "unreachable", "not_tried", "skipped"):
        if counts[key]:
            text += f", {counts[key]} {key.replace('_', ' ')}"
    return f"{text}, in {wall_s:.1f} s"


def joined_diff(results):
    """One diff for all hosts that changed, each line with its host in front. Takes the diffs out of the results."""
    sides = {"before": [], "after": []}
    for host, result in results.items():
        diff = result.pop("diff", None)
        for side, lines in sides.items():
            lines += [f"{host} {line}\n" for line in str((diff or {}).get(side) or "").splitlines()]
    return {side: "".join(lines) for side, lines in sides.items()}


class Shared:
    """Keeps equal parts of results once: what thousands of BMCs say is mostly the same, and each result is held in several processes."""

    PARTS = ("before", "after", "bmc", "bmc_warnings", "msg")
    LONGEST = 1000

    def __init__(self):
        self._known = {}

    def __call__(self, result):
        """The same result, with parts that occurred before in the place of its own."""
        for key in self.PARTS:
            if key in result:
                text = repr(result[key])
                if len(text) <= self.LONGEST:
                    result[key] = self._known.setdefault((key, text), result[key])
        return result
