# The lab's files: its two directories with the mark that says whose they are, blank disks, passwords, keys, lab.json, the expected-servers list.
# observe -> plan -> apply; secrets are made once, kept in files of mode 0600 and shown nowhere.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import secrets
import shutil
import string
import subprocess

from ..core.deadline import Deadline
from ..core.errors import BaremetalError, InvalidInput, Refused
from ..core.plan import Change, Plan
from ..core.units import parse_size
from .description import SLURM_HOST, expected_servers, simulator_view

MARK = ".aicluster-lab"
FACTORY = "factory"
FACTORY_USER = "admin"
KEYS = ("id_ed25519", "slurm_host_ed25519")  # the controller's own, and the host key of the Slurm controller
SUBDIRECTORIES = ("firmware", "log", "nodes", "ssh", "supervisor.d", "report")


def _read(path):
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read()
    except FileNotFoundError:
        return None


def write_file(path, text, mode):
    """Replace a file in one step, so that a reader (the simulator, another play) never sees half of it."""
    fresh = f"{path}.new.{os.getpid()}"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        os.fchmod(handle, mode)
        os.write(handle, text.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(fresh, path)


def owned(path, name):
    """True when the directory is this lab's, False when it is absent or empty; Refused when it is somebody else's."""
    mark = _read(os.path.join(path, MARK))
    if mark is not None:
        owner = json.loads(mark).get("lab")
        if owner != name:
            raise Refused(
                "the directory belongs to another lab",
                thing=path,
                wanted=name,
                seen=owner,
                next_step="give each lab its own directories",
            )
        return True
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isdir(path)):
        raise Refused(
            "the place of the lab is not a directory",
            thing=path,
            next_step="choose another virtual_lab_dir or virtual_lab_run_dir",
        )
    if os.path.isdir(path) and os.listdir(path):
        raise Refused(
            "the directory was not made by a lab and is not empty",
            thing=path,
            wanted=f"absent, empty, or holding {MARK}",
            seen=", ".join(sorted(os.listdir(path))[:5]),
            next_step="choose another virtual_lab_dir or virtual_lab_run_dir, or empty it yourself",
        )
    return False


def _yaml():
    try:
        import yaml
    except ImportError:
        raise InvalidInput(
            "PyYAML is not installed for this Python", next_step="use the Python of the virtual environment (make venv)"
        ) from None
    return yaml


def _disks(description):
    for node in description["nodes"]:
        for disk in node["disks"]:
            yield (
                os.path.join(description["dir"], "nodes", node["name"], disk["slot"] + ".raw"),
                parse_size(disk["size"]),
            )


def _node_directories(description):
    return [os.path.join(description["dir"], "nodes", node["name"]) for node in description["nodes"]]


def factory_password(directory):
    """The password that the BMCs left the factory with, None before the lab's first start."""
    text = _read(os.path.join(directory, "secrets.yml"))
    entry = (_yaml().safe_load(text) or {}).get(FACTORY) if text else None
    return (entry or {}).get("password")


def lab_json(description, password):
    accounts = [{"username": FACTORY_USER, "password": password, "role": "Administrator"}]
    return json.dumps(simulator_view(description, accounts), indent=2, sort_keys=True) + "\n"


def expected_yaml(description):
    return "# The servers that should stand in the lab's racks. Written by the role virtual_lab.\n" + _yaml().safe_dump(
        expected_servers(description), sort_keys=False, explicit_start=True
    )


def _refuse_fewer(description):
    """A server that the lab has and the description has not would stay behind without a BMC, running or not."""
    path = os.path.join(description["dir"], "lab.json")
    try:
        present = [node["name"] for node in json.loads(_read(path) or "{}").get("nodes", [])]
    except ValueError:  # cut off by hand: it is written anew
        return
    wanted = [node["name"] for node in description["nodes"]]
    surplus = [name for name in present if name not in wanted]
    if surplus:
        raise Refused(
            "the lab has servers that are no longer asked for",
            thing=f"lab {description['name']}",
            wanted=", ".join(wanted),
            seen=", ".join(present),
            next_step=f"remove the lab first (make demo-down), or ask for {', '.join(surplus)} too (make demo NODES={len(present)})",
        )


def plan(description):
    """What is missing or differs, as a Plan over paths. Contents are never part of it: a path is `absent`, `present` or `differs`."""
    directory, run_directory = description["dir"], description["run_dir"]
    changes = []
    for path in (directory, run_directory):
        if not owned(path, description["name"]):
            changes.append(Change(path, None, "directory"))
    _refuse_fewer(description)
    for path in [os.path.join(directory, sub) for sub in SUBDIRECTORIES] + _node_directories(description):
        if not os.path.isdir(path):
            changes.append(Change(path, None, "directory"))
    for path, size in _disks(description):
        if not os.path.exists(path):
            changes.append(Change(path, None, f"blank disk of {size} bytes"))
        elif os.path.getsize(path) != size:
            raise Refused(
                "a disk of the lab has another size than asked for",
                thing=path,
                wanted=f"{size} bytes",
                seen=f"{os.path.getsize(path)} bytes",
                next_step="its content would be lost: remove the lab first (make demo-down), or ask for the old size",
            )
    password = factory_password(directory)
    changes.append(Change(os.path.join(directory, "secrets.yml"), "present" if password else None, "present"))
    for leaf in KEYS:
        if not os.path.exists(os.path.join(directory, "ssh", leaf)):
            changes.append(Change(os.path.join(directory, "ssh", leaf), None, "present"))
    if not os.path.exists(os.path.join(directory, "ssh", "known_hosts")):
        changes.append(Change(os.path.join(directory, "ssh", "known_hosts"), None, "present"))
    for leaf, text in (
        ("lab.json", lab_json(description, password)),
        ("expected_servers.yml", expected_yaml(description)),
    ):
        path = os.path.join(directory, leaf)
        seen = _read(path)
        changes.append(Change(path, None if seen is None else "right" if seen == text else "differs", "right"))
    return Plan(changes)


def _make_directory(path, name):
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    os.makedirs(path, mode=0o700, exist_ok=True)
    # Daemons that give up root (dnsmasq, nginx workers) must be able to walk through; what is secret has its own mode.
    os.chmod(path, 0o755)
    if _read(os.path.join(path, MARK)) is None:
        write_file(
            os.path.join(path, MARK),
            json.dumps({"lab": name, "made_by": "aicluster.baremetal.virtual_lab"}) + "\n",
            0o644,
        )


def _add_factory_secret(directory):
    """Add the factory account to the secret store; what else is in the store (rotated credentials) stays as it is."""
    path = os.path.join(directory, "secrets.yml")
    store = _yaml().safe_load(_read(path) or "") or {}
    alphabet = string.ascii_letters + string.digits
    # 16 characters: IPMI 1.5 and many BMCs take no more.
    store[FACTORY] = {"username": FACTORY_USER, "password": "".join(secrets.choice(alphabet) for _unused in range(16))}
    write_file(path, _yaml().safe_dump(store, sort_keys=True, explicit_start=True), 0o600)


def _make_key(path, comment):
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise BaremetalError(
            "the SSH key could not be made", thing=path, seen=done.stderr.strip(), next_step="install openssh-client"
        )


def apply(description, todo, check_schema=None):
    """Carry out a plan. `check_schema` (lab.json as a dict -> None, raises) is asked before lab.json is written."""
    directory, name = description["dir"], description["name"]
    things = {change.thing for change in todo.changes}
    for path in (directory, description["run_dir"]):
        if path in things:
            _make_directory(path, name)
    for path in [os.path.join(directory, sub) for sub in SUBDIRECTORIES] + _node_directories(description):
        os.makedirs(path, mode=0o700 if path.endswith("/ssh") else 0o755, exist_ok=True)
    for path, size in _disks(description):
        if path in things:
            with open(path, "xb") as handle:
                os.fchmod(handle.fileno(), 0o600)
                handle.truncate(size)
    if os.path.join(directory, "secrets.yml") in things:
        _add_factory_secret(directory)
    for leaf in KEYS:
        if os.path.join(directory, "ssh", leaf) in things:
            _make_key(os.path.join(directory, "ssh", leaf), f"aicluster-lab-{name}")
    known_hosts = os.path.join(directory, "ssh", "known_hosts")
    if known_hosts in things:
        public = _read(os.path.join(directory, "ssh", KEYS[1] + ".pub")).split()
        write_file(known_hosts, f"{description['networks']['prov']}.{SLURM_HOST} {public[0]} {public[1]}\n", 0o644)
    text = lab_json(description, factory_password(directory))
    if check_schema:
        check_schema(json.loads(text))
    if os.path.join(directory, "lab.json") in things:
        write_file(os.path.join(directory, "lab.json"), text, 0o600)
    if os.path.join(directory, "expected_servers.yml") in things:
        write_file(os.path.join(directory, "expected_servers.yml"), expected_yaml(description), 0o644)


def mounts_below(*paths):
    """Mount points inside the given directories, deepest first, as this process sees them."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as handle:
        for line in handle:
            point = line.split(" ")[4].encode().decode("unicode_escape")
            if any(point == path or point.startswith(path.rstrip("/") + "/") for path in paths):
                found.append(point)
    return sorted(found, key=len, reverse=True)


def control_groups(name):
    """Control groups that the lab's containers ran in, deepest first."""
    found = []
    for tree in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"):
        top = os.path.join(tree, "aicluster-lab", name)
        if os.path.isdir(top):
            found += [path for path, _directories, _files in os.walk(top, topdown=False)]
    return found


def plan_removal(name, directory, run_directory):
    """What is there to be removed; Refused where a directory is not this lab's."""
    changes = []
    for path in (run_directory, directory):
        if owned(path, name):
            changes += [Change(point, "mounted", None) for point in mounts_below(path)]
            changes.append(Change(path, "directory", None))
    changes += [Change(path, "control group", None) for path in control_groups(name)]
    return Plan(changes)


def _delete_marked(path):
    """Delete a directory, its mark last: a deletion that was interrupted is still known as ours by the next run."""
    for entry in os.scandir(path):
        if entry.name == MARK:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    os.unlink(os.path.join(path, MARK))
    os.rmdir(path)


def _remove_group(path):
    """A group of which the last process has just ended is busy for a moment more."""
    deadline = Deadline(5, f"control group {path} empty", next_step=f"see what is in it: cat {path}/cgroup.procs")

    def probe():
        try:
            os.rmdir(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            return False, error
        return True, None

    deadline.wait(probe, interval=0.2)


def apply_removal(todo):
    """Unmount, then delete; an empty parent directory (.../aicluster) goes too. The caller has ended the lab's processes."""
    for change in todo.changes:
        if change.before == "mounted":
            done = subprocess.run(["umount", change.thing], capture_output=True, text=True, check=False)
            if done.returncode:
                raise BaremetalError(
                    "the mount could not be removed",
                    thing=change.thing,
                    seen=done.stderr.strip(),
                    next_step=f"see who uses it: fuser -vm {change.thing}",
                )
    for change in todo.changes:
        if change.before == "control group":
            _remove_group(change.thing)
            parent = os.path.dirname(change.thing)
            if os.path.basename(parent) == "aicluster-lab" and not any(entry.is_dir() for entry in os.scandir(parent)):
                os.rmdir(parent)
    for change in todo.changes:
        if change.before == "directory":
            left = mounts_below(change.thing)
            if left:  # never walk into a mount while deleting
                raise BaremetalError(
                    "something is still mounted inside",
                    thing=change.thing,
                    seen=", ".join(left),
                    next_step="unmount it and start again",
                )
            _delete_marked(change.thing)
            parent = os.path.dirname(change.thing)
            if os.path.basename(parent) == "aicluster" and not os.listdir(parent):
                os.rmdir(parent)
