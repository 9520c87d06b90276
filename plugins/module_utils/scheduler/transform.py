# Readers: text or JSON of Slurm's tools (22.05 to 24.11) -> plain dicts. Pure, no I/O.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re

from ..core.errors import InvalidInput
from .port import split_reason

# Suffixes that sinfo and scontrol append to a state (man sinfo, NODE STATE CODES); only '*' says something that the flags do not.
_SUFFIX = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWERING_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
    "+": "CLOUD",
}
# One word of sinfo that stands for a base state and a flag.
_COMPOUND = {
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "DRNG": ("ALLOCATED", "DRAIN"),
    "FAILING": ("ALLOCATED", "FAIL"),
    "INVAL": ("IDLE", "INVALID_REG"),
    "MAINT": ("IDLE", "MAINTENANCE"),
    "COMP": ("IDLE", "COMPLETING"),
    "UNK": ("UNKNOWN", ""),
}
_BASE = ("IDLE", "ALLOCATED", "MIXED", "DOWN", "ERROR", "FUTURE", "UNKNOWN")
_GPU_WORD = re.compile(r"\b((?:[ABHLV]|GB|GH|MI|RTX|T)[0-9]{1,4}[A-Z]{0,2})\b", re.IGNORECASE)
_REASON_TAIL = re.compile(r"^(.*?)\s*\[([^\[\]@]*)@([^\[\]]*)\]\s*$", re.DOTALL)
# Lines of `scontrol show node` whose one value may hold spaces and equal signs.
_WHOLE_LINE = ("OS", "Reason", "Comment", "Extra", "AdminComment")
_PAIR = re.compile(r"(\w+)=(.*?)(?=\s+\w+=|$)")


def gpu_type(model):
    """ "h100" from "NVIDIA H100 80GB HBM3": the word that Slurm's Gres type can be a substring of; "gpu" where none is recognised."""
    match = _GPU_WORD.search(model or "")
    return match.group(1).lower() if match else "gpu"


def state_of(words):
    """(base state, sorted flags) from "IDLE*+DRAIN", "drained$", ["IDLE", "DRAIN"] or ("idle", ["DRAIN"])."""
    if isinstance(words, str):
        words = words.split("+")
    base, flags = None, set()
    for word in words:
        word = word.strip().upper()
        while word and word[-1] in _SUFFIX:
            flags.add(_SUFFIX[word[-1]])
            word = word[:-1]
        first, flag = _COMPOUND.get(word, (word, ""))
        if flag:
            flags.add(flag)
        if not first:
            continue
        if base is None and first in _BASE:
            base = first
        elif first != base:
            flags.add(first)
    return base or "UNKNOWN", sorted(flags)


def _number(value):
    """An int from 8, "8", "8000M" or 24.11's {"set": true, "number": 8}; 0 when there is none."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) else 0
    match = re.match(r"\d+", str(value if value is not None else ""))
    return int(match.group()) if match else 0


def _text(value):
    """Slurm's several words for "nothing" as an empty string."""
    return "" if value is None or value in ("(null)", "N/A", "None", "none", "n/a") else str(value)


def _node(name, state, reason, reason_user, **more):
    base, flags = state
    drained = "DRAIN" in flags
    # On a node that is not drained the reason says why it is down, or is left over; it is no drain's owner.
    owner = split_reason(reason)[0] if drained else None
    more.update(
        name=name,
        state="+".join([base] + flags),
        base=base,
        flags=flags,
        drained=drained,
        reason=reason,
        reason_user=reason_user,
        drain_owner=(owner or f"user:{reason_user or 'unknown'}") if drained else None,
    )
    return more


def _node_from_json(item):
    state = item.get("state") or "UNKNOWN"
    words = list(state) if isinstance(state, list) else str(state).split("+")
    words += item.get("state_flags") or []
    return _node(
        item["name"],
        state_of(words),
        _text(item.get("reason")),
        _text(item.get("reason_set_by_user")),
        address=_text(item.get("address")),
        cpus=_number(item.get("cpus")),
        alloc_cpus=_number(item.get("alloc_cpus")),
        real_memory_mib=_number(item.get("real_memory")),
        gres=_text(item.get("gres")),
        boards=_number(item.get("boards")),
        sockets=_number(item.get("sockets")),
        cores=_number(item.get("cores")),
        threads=_number(item.get("threads")),
        # Slurm 22.05 prints the field of an absent slurmd as 0; `version` is empty until a slurmd has registered.
        registered=bool(_number(item.get("slurmd_start_time"))),
        version=_text(item.get("slurmd_version") or item.get("version")),
    )


def _node_from_text(record):
    fields = {}
    for line in record.splitlines():
        line = line.strip()
        key, _sep, value = line.partition("=")
        if key in _WHOLE_LINE:
            fields[key] = value.strip()
        else:
            fields.update((match.group(1), match.group(2).strip()) for match in _PAIR.finditer(line))
    reason, user = _text(fields.get("Reason")), ""
    tail = _REASON_TAIL.match(reason)
    if tail:
        reason, user = tail.group(1), tail.group(2)
    start = fields.get("SlurmdStartTime", "None")
    return _node(
        fields["NodeName"],
        state_of(fields.get("State", "UNKNOWN")),
        reason,
        user,
        address=_text(fields.get("NodeAddr")),
        cpus=_number(fields.get("CPUTot")),
        alloc_cpus=_number(fields.get("CPUAlloc")),
        real_memory_mib=_number(fields.get("RealMemory")),
        gres=_text(fields.get("Gres")),
        boards=_number(fields.get("Boards")),
        sockets=_number(fields.get("Sockets")),
        cores=_number(fields.get("CoresPerSocket")),
        threads=_number(fields.get("ThreadsPerCore")),
        registered=start[:1].isdigit(),
        version=_text(fields.get("Version")),
    )


def _expand_oneline(line):
    """`scontrol -o` puts a whole record on one line: break it before the fields that may hold spaces, and before those that follow them."""
    for word in _WHOLE_LINE + ("RealMemory", "NodeName", "State", "ReservationName"):
        line = re.sub(rf"\s(?={word}=)", "\n", line)
    return line


def nodes(text):
    """Nodes from `scontrol show node` (text, one-line or JSON) or `sinfo/slurmrestd` JSON; InvalidInput when it is none of them."""
    stripped = text.lstrip()
    if stripped.startswith("{"):
        try:
            items = json.loads(stripped).get("nodes")
            return [_node_from_json(item) for item in items]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(
                "not the JSON of Slurm's nodes", thing="Slurm output", seen=f"{error}: {stripped[:80]!r}"
            ) from error
    found = []
    for record in re.split(r"(?m)^(?=NodeName=)", text):
        record = record.strip()
        if not record.startswith("NodeName="):
            continue
        if "\n" not in record:
            record = _expand_oneline(record)
        found.append(_node_from_text(record))
    return found


def jobs(text):
    """[{id, name, user, state}] from `squeue -h -o '%i|%T|%u|%j'` or from `squeue --json`."""
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            items = json.loads(stripped).get("jobs")
            return [
                {
                    "id": str(item["job_id"]),
                    "name": _text(item.get("name")),
                    "user": _text(item.get("user_name")),
                    "state": "+".join(item["job_state"])
                    if isinstance(item["job_state"], list)
                    else str(item["job_state"]),
                }
                for item in items
            ]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(
                "not the JSON of Slurm's jobs", thing="Slurm output", seen=f"{error}: {stripped[:80]!r}"
            ) from error
    found = []
    for line in stripped.splitlines():
        parts = line.split("|", 3)
        if len(parts) == 4:
            found.append({"id": parts[0], "state": parts[1], "user": parts[2], "name": parts[3]})
    return found


def hardware(text):
    """Hardware as slurmd sees it, from `slurmd -C`: {name, cpus, boards, sockets, cores, threads, real_memory_mib}."""
    for line in text.splitlines():
        if not line.startswith("NodeName="):
            continue
        fields = dict(word.partition("=")[::2] for word in line.split())
        seen = {
            "name": fields["NodeName"],
            "cpus": _number(fields.get("CPUs")),
            "boards": _number(fields.get("Boards")) or 1,
            "sockets": _number(fields.get("SocketsPerBoard") or fields.get("Sockets")),
            "cores": _number(fields.get("CoresPerSocket")),
            "threads": _number(fields.get("ThreadsPerCore")),
            "real_memory_mib": _number(fields.get("RealMemory")),
        }
        missing = [key for key, value in seen.items() if not value]
        if missing:
            raise InvalidInput(
                "slurmd -C left out what the controller needs", thing="slurmd -C", wanted=", ".join(missing), seen=line
            )
        return seen
    raise InvalidInput(
        "not the output of slurmd -C",
        thing="slurmd -C",
        wanted="a line that starts with NodeName=",
        seen=repr(text[:120]),
    )


# One command on the node; the marks keep its parts apart. instruments.json is what the lab's simulated GPUs leave in an image.
PROBE = (
    "slurmd -C || exit 1; echo @gpus; ls -d /dev/nvidia[0-9]* 2>/dev/null; echo @model; "
    "nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1; echo @simulated; "
    "test -e /usr/lib/aicluster/instruments.json && echo yes; exit 0"
)


def probe(text):
    """hardware() plus {gpus, gpu_model, gpu_type, simulated} from the output of PROBE."""
    parts = re.split(r"(?m)^@(?:gpus|model|simulated)$", text)
    if len(parts) != 4:
        raise InvalidInput("not the output of the hardware probe", thing="hardware probe", seen=repr(text[:120]))
    found = hardware(parts[0])
    # Slurm's File= range starts at 0 and has no holes; a hole (a GPU that fell off) must not be papered over by counting.
    numbers = sorted(int(match) for match in re.findall(r"(?m)^/dev/nvidia(\d+)$", parts[1]))
    if numbers != list(range(len(numbers))):
        raise InvalidInput(
            "GPU device files are missing",
            thing="/dev/nvidia*",
            wanted="numbers from 0 without holes",
            seen=", ".join(map(str, numbers)),
            next_step="a GPU is missing: run the burn-in again",
        )
    model = parts[2].strip()
    return {
        **found,
        "gpus": len(numbers),
        "gpu_model": model,
        "gpu_type": gpu_type(model),
        "simulated": parts[3].strip() == "yes",
    }
