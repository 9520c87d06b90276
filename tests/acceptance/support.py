# What the acceptance points share: running the demo and playbooks in a lab of their own, reading what came of it, and giving a verdict.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A point ends with `holds(figure)` (exit 0), `fails(figure)` (exit 1) or `could_not_test(reason)` (exit 77); the figure is its last output line."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"

if importlib.util.find_spec("sqlalchemy") is None:
    # Started with another Python than the project's own: make that one and go on in it.
    subprocess.run(["make", "--no-print-directory", "venv"], cwd=ROOT, check=True)
    os.execv(PYTHON, [str(PYTHON), *sys.argv])

sys.path.insert(0, str(ROOT / "tests" / "unit"))
import conftest  # noqa: E402  makes the checkout importable as a collection

assert conftest.ROOT == ROOT

_RECAP = re.compile(r"^(\S+)\s*: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


class PointFailed(Exception):
    """The point does not hold; the text is its figure."""


def fails(figure):
    raise PointFailed(figure)


def could_not_test(reason):
    print(f"could_not_test: {reason}")
    sys.exit(77)


def check(condition, figure):
    """Go on when `condition` is true, else the point fails with `figure`."""
    if not condition:
        raise PointFailed(figure)


def point(main, sabotages=""):
    """Run `main(sabotage: bool) -> figure` as the point of the calling script and exit with its verdict."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sabotage", action="store_true", help=sabotages)
    options = parser.parse_args()
    if os.geteuid() != 0:
        could_not_test("the lab needs root")
    if options.sabotage:
        print(f"sabotage: {sabotages}")
    signal.signal(signal.SIGTERM, lambda *_args: sys.exit(143))
    try:
        figure = main(options.sabotage)
    except PointFailed as failure:
        print(f"does not hold: {failure}")
        sys.exit(1)
    except Exception as error:
        # No verdict: a point that broke must not count as a sabotage that was noticed.
        traceback.print_exc()
        print(f"the point itself broke: {type(error).__name__}: {error}")
        sys.exit(3)
    print(figure)
    sys.exit(0)


@dataclass
class Run:
    """One finished command."""

    status: int
    output: str
    seconds: float
    recap: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def changed(self):
        return {host: row["changed"] for host, row in self.recap.items() if row["changed"]}

    def tail(self, lines=25):
        return "\n".join(self.output.splitlines()[-lines:])


class Lab:
    """An embedded lab by name, driven as a user drives it."""

    def __init__(self, name, checkout=ROOT):
        self.name, self.checkout = name, pathlib.Path(checkout)
        self.state = pathlib.Path("/var/lib/aicluster") / name
        self.run_dir = pathlib.Path("/run/aicluster") / name
        self.registry_url = f"sqlite:///{self.state}/registry.db"
        self.secrets = self.state / "secrets.yml"

    def environment(self, **more):
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AICLUSTER_"))
        }
        for key in ("AICLUSTER_CACHE", "AICLUSTER_CORPUS"):
            if key in os.environ:
                environment[key] = os.environ[key]
        environment.update(
            ANSIBLE_CONFIG=str(self.checkout / "inventories" / "lab" / "ansible.cfg"),
            AICLUSTER_LAB=self.name,
            AICLUSTER_REGISTRY=self.registry_url,
            AICLUSTER_SECRETS=str(self.secrets),
            AICLUSTER_KNOWN_HOSTS=str(self.state / "known_hosts"),
            ANSIBLE_NOCOLOR="1",
            LC_ALL="C.UTF-8",
        )
        environment.update(more)
        return environment

    def make(self, target, timeout=2400, **variables):
        """`make target LAB=...` in the checkout, as a user types it."""
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "AICLUSTER_", "VIRTUAL_ENV"))
        }
        if "AICLUSTER_CACHE" in os.environ:
            environment["AICLUSTER_CACHE"] = os.environ["AICLUSTER_CACHE"]
        words = [f"{key}={value}" for key, value in variables.items()]
        return execute(
            ["make", "--no-print-directory", target, f"LAB={self.name}", *words],
            cwd=self.checkout,
            env=environment,
            timeout=timeout,
        )

    def command(self, playbook, *arguments, inside=True):
        """The words of an ansible-playbook run of ours; `inside` the lab's controller namespace."""
        words = ["ip", "netns", "exec", f"{self.name}-ctl"] if inside else []
        inventories = self.checkout / "inventories" / "lab"
        return [
            *words,
            str(self.checkout / ".venv" / "bin" / "ansible-playbook"),
            "-i",
            str(inventories / "hosts.yml"),
            "-i",
            str(inventories / "registry.aicluster.yml"),
            f"aicluster.baremetal.{playbook}",
            # the lab's inventory names its registry and secret store as variables, which win over the environment
            "-e",
            json.dumps({"aicluster_registry": self.registry_url, "aicluster_secrets": str(self.secrets)}),
            *arguments,
        ]

    def play(self, playbook, *arguments, inside=True, timeout=1800, **environment):
        return execute(
            self.command(playbook, *arguments, inside=inside),
            cwd=self.checkout,
            env=self.environment(**environment),
            timeout=timeout,
        )

    def start(self, playbook, *arguments, inside=True, log=None, **environment):
        """As `play`, but not waited for: a Popen in a process group of its own."""
        stream = open(log, "w", encoding="utf-8") if log else subprocess.DEVNULL  # noqa: SIM115  given to the child
        try:
            return subprocess.Popen(
                self.command(playbook, *arguments, inside=inside),
                cwd=self.checkout,
                env=self.environment(**environment),
                stdout=stream,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            if log:
                stream.close()

    @contextlib.contextmanager
    def registry(self, url=None):
        from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry

        registry = open_registry(url or self.registry_url)
        try:
            yield registry
        finally:
            registry.close()

    def program(self, action, name):
        """Start or stop one of the lab's programs through its supervisord."""
        control = self.checkout / ".venv" / "bin" / "supervisorctl"
        return execute([str(control), "-c", str(self.state / "supervisord.conf"), action, name], timeout=120)

    def node(self, name, url=None):
        with self.registry(url) as registry:
            return registry.node(name)

    def states(self, url=None):
        with self.registry(url) as registry:
            return {node["name"]: node["state"] for node in registry.nodes() if node["state"] != "retired"}

    def control(self, op, **arguments):
        """Ask the BMC simulator through its control socket."""
        from bmc_simulator.control import Control

        return Control(self.run_dir / "bmc.sock").call(op, **arguments)

    def journal(self, node, name="requests"):
        path = self.state / "nodes" / node / f"{name}.jsonl"
        return (
            [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
            if path.exists()
            else []
        )

    def bmc_writes(self, node):
        """Write requests that the BMC itself has on record, sessions left out."""
        return [row for row in self.journal(node) if not row.get("session")]

    def console(self, node):
        path = self.state / "nodes" / node / "console.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def ssh(self, node, command, timeout=60):
        """Run a command on a node with the lab's key and the host key pinned in the registry."""
        row = self.node(node)
        known = self.state / "acceptance-known-hosts"
        known.write_text(f"{row['provision_ip']} {row['host_key']}\n", encoding="utf-8")
        return execute(
            [
                "ip",
                "netns",
                "exec",
                f"{self.name}-ctl",
                "ssh",
                "-i",
                str(self.state / "ssh" / "id_ed25519"),
                "-o",
                f"UserKnownHostsFile={known}",
                "-o",
                "StrictHostKeyChecking=yes",
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=10",
                f"root@{row['provision_ip']}",
                command,
            ],
            timeout=timeout,
        )

    @contextlib.contextmanager
    def watched_write(self, node):
        """While the block runs a deployment of `node`: what is on its disk when the ramdisk says that the image is written, and before it writes more.

        The ramdisk waits for the boot service to take its report, so the boot service is stopped (SIGSTOP) until the disk was read from outside.
        Result: state/written-extent.json, {disk, size_bytes, sha256, or problem}.
        """
        over = threading.Event()
        thread = threading.Thread(target=self._watch_write, args=(node, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(60)

    def _watch_write(self, node, over):
        result = self.state / "written-extent.json"
        began, size = time.time(), None
        while not over.wait(0.1) and size is None:
            with contextlib.suppress(Exception):
                size = self._image_sent(node, began)
        if size is None:
            return
        service = None
        try:
            service = int(self.program("pid", "boot-service").output.split()[-1])
            os.kill(service, signal.SIGSTOP)
            end = time.monotonic() + 60
            while not re.search(r"aicluster-deploy \S+ written:", self._last_ramdisk(node)):
                if over.wait(0.05) or time.monotonic() > end:
                    raise RuntimeError("the console does not say that the image is written")
            if " seeded:" in self._last_ramdisk(node):
                raise RuntimeError("the ramdisk was not held: it has written the seed already")
            disks = sorted((self.state / "nodes" / node).glob("*.raw"), key=lambda path: path.stat().st_blocks)
            digest, left = hashlib.sha256(), size
            with open(disks[-1], "rb") as handle:
                while left and (data := handle.read(min(left, 1 << 22))):
                    digest.update(data)
                    left -= len(data)
            if " seeded:" in self._last_ramdisk(node):
                raise RuntimeError("the ramdisk went on while its disk was read")
            answer = {"disk": disks[-1].name, "size_bytes": size - left, "sha256": digest.hexdigest()}
        except Exception as error:
            answer = {"problem": f"{type(error).__name__}: {error}"}
        finally:
            if service:
                os.kill(service, signal.SIGCONT)
        result.write_text(json.dumps(answer), encoding="utf-8")

    def _image_sent(self, node, since):
        """Bytes of the image when the HTTP server has sent it whole to the node after `since`, else None."""
        from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot.timeline import read_nginx

        address = self.node(node)["provision_ip"]
        for line in (self.state / "log" / "image-access.log").read_text(encoding="utf-8").splitlines():
            entry = read_nginx(line)
            if not entry or not entry["path"].endswith("/disk.raw") or entry["address"] != address:
                continue
            if entry["complete"] and entry["time"] >= since:
                return entry["bytes"]
        return None

    def _last_ramdisk(self, node):
        return self.console(node).rpartition("ramdisk started on")[2]

    def image(self):
        """(directory, manifest) of the image that the lab's nodes are deployed with."""
        store = pathlib.Path(os.environ.get("AICLUSTER_CACHE", "/var/cache/aicluster")) / "images"
        found = sorted(store.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime)
        for path in reversed(found):
            manifest = json.loads(path.read_text(encoding="utf-8"))
            if manifest.get("sha256") and (path.parent / "disk.raw").exists():
                return path.parent, manifest
        raise PointFailed(f"no image below {store}")


def execute(words, timeout=1800, quiet=False, **options):
    """Run a command to its end, everything it prints kept and (but for `quiet`) shown; past `timeout` its process group is ended."""
    began = time.monotonic()
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
        **options,
    )
    try:
        output, _errors = process.communicate(timeout=timeout)
    except BaseException as error:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            time.sleep(2)
        output, _errors = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        print(output)
        fails(f"no end within {timeout} s: {' '.join(map(str, words[:6]))} ...")
    run = Run(process.returncode, output, time.monotonic() - began)
    for host, *counts in _RECAP.findall(output):  # a host is in the recap of every playbook that it had a part in
        row = run.recap.setdefault(host, {"ok": 0, "changed": 0, "unreachable": 0, "failed": 0})
        for key, count in zip(row, counts):
            row[key] += int(count)
    if not quiet:
        print(output, flush=True)
    return run


@contextlib.contextmanager
def fresh_lab(name, url=None, **settings):
    """A new lab for a `with` block: servers discovered and still powered off, as make demo has it before its stages; removed at the end, however it comes.

    `settings`: options of role virtual_lab; `url`: from the lab to the URL of its registry.
    """
    lab = Lab(name)
    lab.make("demo-down")
    try:
        if url:
            lab.registry_url = url(lab)
        options = ["-e", json.dumps(settings)]
        for playbook, inside in (
            ("image", False),
            ("lab", False),
            ("registry", True),
            ("boot_server", True),
            ("discover", True),
        ):
            run = lab.play(playbook, *options, inside=inside)
            check(run.status == 0, f"playbook {playbook} ended with {run.status}: {run.tail(8)}")
        yield lab
    finally:
        lab.make("demo-down")


SHARED = os.environ.get("AICLUSTER_ACCEPTANCE_LAB", "accmain")


def deployed_lab(name=SHARED):
    """The lab that several points share: as `make demo` leaves it; made when it is not there."""
    lab = Lab(name)
    with contextlib.suppress(Exception):
        if lab.states() == {"gpu01": "active", "gpu02": "quarantined"} and lab.control("ping"):
            return lab
    with lab.watched_write("gpu01"):
        run = lab.make("demo")
    check(run.status == 0, f"make demo ended with {run.status}: {run.tail(3)}")
    return lab
