# The registry's plugins as Ansible runs them: forks, groups, check mode, bulk form, two controllers, a killed controller.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
import conftest  # noqa: E402  makes the checkout importable

assert conftest.ROOT == ROOT
import private_postgresql  # noqa: E402

from ansible_collections.aicluster.baremetal.plugins.module_utils.core import errors  # noqa: E402
from ansible_collections.aicluster.baremetal.plugins.module_utils.registry import open_registry  # noqa: E402

ME = "tester@here"
NAMES = [f"gpu{number:02d}" for number in range(1, 7)]
RECAP = re.compile(r"^(\S+)\s*: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@pytest.fixture(scope="session")
def collections(tmp_path_factory):
    path = tmp_path_factory.mktemp("collections")
    place = path / "ansible_collections" / "aicluster"
    place.mkdir(parents=True)
    (place / "baremetal").symlink_to(ROOT)
    return path


@pytest.fixture(scope="session")
def postgresql():
    try:
        with private_postgresql.server() as url:
            yield url("postgres")
    except private_postgresql.CouldNotTest as reason:
        pytest.skip(str(reason))


class Controller:
    """A directory with an inventory, a registry URL, and a home of its own."""

    def __init__(self, path, url, collections):
        self.path, self.url = path, url
        path.mkdir(exist_ok=True)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AICLUSTER_"))},
            "HOME": str(path),
            "ANSIBLE_FORKS": "6",
            "ANSIBLE_COLLECTIONS_PATH": str(collections),
            "AICLUSTER_REGISTRY": url,
            "AICLUSTER_SECRETS": str(path / "secrets.yml"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
            "ANSIBLE_INVENTORY_ENABLED": "aicluster.baremetal.registry",
        }
        (path / "all.aicluster.yml").write_text("plugin: aicluster.baremetal.registry\nmissing_ok: true\n")

    def start(self, plays, *arguments, **options):
        book = self.path / "book.yml"
        book.write_text(plays if isinstance(plays, str) else yaml.safe_dump(plays, sort_keys=False))
        program = shutil.which("ansible-playbook", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")
        return subprocess.Popen(
            [program, "-i", "all.aicluster.yml", str(book), *arguments],
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )

    def run(self, plays, *arguments, rc=0):
        process = self.start(plays, *arguments)
        output, _error = process.communicate(timeout=120)
        assert process.returncode == rc, output
        return output, {name: [int(one) for one in numbers] for name, *numbers in RECAP.findall(output)}


both_databases = pytest.mark.parametrize(
    "backend", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)


@pytest.fixture
def backend():
    return "sqlite"


@pytest.fixture
def url(backend, request, tmp_path):
    if backend == "sqlite":
        return f"sqlite:///{tmp_path}/registry.db"
    url = request.getfixturevalue("postgresql")
    import sqlalchemy as sa

    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql("DROP DATABASE IF EXISTS fresh WITH (FORCE)")
        connection.exec_driver_sql("CREATE DATABASE fresh")
    engine.dispose()
    return url.replace("/postgres?", "/fresh?")


@pytest.fixture
def registry(url):
    with open_registry(url, migrate=True) as opened:
        for number, name in enumerate(NAMES, 1):
            opened.save_node(
                f"S{number}", ME, name=name, state="manageable", rack="r1", provision_ip=f"192.0.2.{number}"
            )
            opened.transition(name, "manageable", "available", ME)
        yield opened


@pytest.fixture
def controller(tmp_path, url, collections):
    return Controller(tmp_path / "one", url, collections)


@pytest.fixture
def other(tmp_path, url, collections):
    return Controller(tmp_path / "two", url, collections)


def play(hosts, *tasks, **more):
    return {"hosts": hosts, "gather_facts": False, "tasks": list(tasks), **more}


def lifecycle(**options):
    return {"aicluster.baremetal.node_lifecycle": options}


BEGIN = play("nodes", {**lifecycle(state="begin", stage="deploy"), "register": "begun"})
SHOW = {
    "ansible.builtin.debug": {
        "msg": "in the group: {{ inventory_hostname }} {{ aicluster_fencing }} {{ aicluster_state }}"
    }
}


def test_a_registry_is_made_and_filled_from_playbooks(controller):
    made = play(
        "localhost",
        {"aicluster.baremetal.registry": {}},
        {
            "aicluster.baremetal.node": {
                "serial": "S1",
                "name": "gpu01",
                "initial_state": "manageable",
                "provision_ip": "192.0.2.1",
                "bmc_credential": "{{ 'site/' ~ 'gpu01' }}",
                "parts": [{"kind": "gpu", "slot": "0", "model": "H100 80GB", "serial": "{{ 5 }}"}],
                "facts": {"note": "{{ '{{' }} not a template }}"},
                "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NA comment",
            }
        },
        lifecycle(state="transition", name="gpu01", to_state="available"),
    )
    _output, recap = controller.run([made])
    assert recap["localhost"][1] == 3
    _output, recap = controller.run([made])
    assert recap["localhost"][1] == 0
    with open_registry(controller.url) as registry:
        node = registry.node("gpu01")
        assert (node["state"], node["bmc_credential"], node["parts"][0]["serial"]) == ("available", "site/gpu01", "5")
        assert registry.verify_audit()["ok"]
    listed = subprocess.run(
        [shutil.which("ansible-inventory") or str(pathlib.Path(sys.executable).parent / "ansible-inventory")]
        + ["-i", "all.aicluster.yml", "--list"],
        cwd=controller.path, env=controller.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    inventory = json.loads(listed.stdout)
    for group in ("nodes", "state_available", "gpu_h100_80gb"):
        assert inventory[group]["hosts"] == ["gpu01"], group
    known_hosts = list((controller.path / ".cache" / "aicluster").glob("known_hosts-*"))
    assert [file.read_text() for file in known_hosts] == [
        "192.0.2.1,gpu01 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NA\n"
    ]
    output, _recap = controller.run(
        [
            play(
                "nodes",
                {"ansible.builtin.debug": {"msg": "{{ aicluster_facts.note }} {{ ansible_host }} {{ ansible_user }}"}},
            )
        ]
    )
    assert "{{ not a template }} 192.0.2.1 root" in output


@both_databases
def test_begin_groups_the_selected_and_finish_moves_them(registry, controller):
    registry.hold("gpu02", "alice", "fan noise", "fan replaced", False, ME)
    finish = lifecycle(
        state="finish", outcome="{{ 'fail' if inventory_hostname == 'gpu03' else 'pass' }}", reason="because"
    )
    plays = [BEGIN, play("stage_deploy", SHOW, lifecycle(state="step", step="look"), finish)]
    output, recap = controller.run(plays)
    assert "in the group: gpu01 1 deploying" in output
    assert "in the group: gpu02" not in output
    assert recap["gpu02"][1] == 0 and recap["gpu01"][1] == 2
    assert {node["name"]: node["state"] for node in registry.nodes()} == {
        **dict.fromkeys(NAMES, "deployed"),
        "gpu02": "available",
        "gpu03": "deploying_failed",
    }
    assert all(registry.attempts(name)[0]["last_step"] == "look" for name in NAMES if name != "gpu02")
    _output, recap = controller.run(plays)
    assert {numbers[1] for numbers in recap.values()} == {0}
    assert registry.verify_audit()["ok"]


def test_check_mode_groups_the_hosts_and_writes_nothing(registry, controller):
    rows = registry.verify_audit()["rows"]
    output, recap = controller.run([BEGIN, play("stage_deploy", SHOW)], "--check")
    assert "in the group: gpu01" in output
    assert all(recap[name][1] == 1 for name in NAMES)
    assert registry.verify_audit()["rows"] == rows
    assert {node["state"] for node in registry.nodes()} == {"available"}


def test_each_change_of_the_lifecycle_shows_its_difference(registry, controller):
    one = {"hosts": "gpu01", "gather_facts": False}
    bulk = lifecycle(state="begin", stage="deploy", names=["gpu02", "gpu03"])
    plays = [{**BEGIN, **one}, {**one, "tasks": [lifecycle(state="finish", outcome="pass")]}, play("localhost", bulk)]
    for arguments, ended in ((["--check"], "only the real run can tell"), ([], '+gpu01.state: "deployed"')):
        output, recap = controller.run(plays, "--diff", *arguments)
        assert recap["gpu01"][1] == 2 and recap["localhost"][1] == 1
        for number in (1, 2, 3):
            assert f'-gpu0{number}.state: "available"' in output and f'+gpu0{number}.state: "deploying"' in output
        assert ended in output and "ended: pass" not in output


@both_databases
def test_the_bulk_form_does_all_in_one_task_and_errors_stay_with_their_node(registry, controller):
    registry.hold("gpu02", "alice", "fan noise", "fan replaced", False, ME)
    plays = [
        play(
            "nodes",
            {
                **lifecycle(state="begin", stage="deploy", names="{{ ansible_play_batch + ['gpu99'] }}"),
                "run_once": True,
                "register": "begun",
            },
            {
                "ansible.builtin.add_host": {
                    "name": "{{ item.name }}",
                    "groups": ["stage_deploy"],
                    "aicluster_attempt": "{{ item.attempt }}",
                    "aicluster_fencing": "{{ item.fencing }}",
                },
                "loop": "{{ begun.nodes | selectattr('selected', 'defined') | selectattr('selected') }}",
                "run_once": True,
                "changed_when": False,
            },
            {"ansible.builtin.debug": {"msg": "failed {{ begun.failed_names }}"}, "run_once": True},
        ),
        play(
            "stage_deploy",
            {**lifecycle(state="step", step="bulk", names="{{ ansible_play_batch }}"), "run_once": True},
            {**lifecycle(state="finish", outcome="pass", names="{{ ansible_play_batch }}"), "run_once": True},
        ),
    ]
    output, _recap = controller.run(plays)
    assert "failed ['gpu99']" in output
    states = {node["name"]: node["state"] for node in registry.nodes()}
    assert states == {**dict.fromkeys(NAMES, "deployed"), "gpu02": "available"}
    assert registry.attempts("gpu06")[0]["last_step"] == "bulk"


@both_databases
def test_two_controllers_at_once_share_the_nodes_out(registry, controller, other):
    wait = {"ansible.builtin.wait_for": {"timeout": 4}, "delegate_to": "localhost", "run_once": True}
    plays = [BEGIN, play("stage_deploy", SHOW, {**wait, "vars": {"ansible_connection": "local"}})]
    runs = [one.start(plays) for one in (controller, other)]
    outputs = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    won = [name for output in outputs for name in re.findall(r"in the group: (gpu\d\d)", output)]
    assert sorted(won) == NAMES
    assert all(len(registry.attempts(name)) == 1 and registry.node(name)["fencing"] == 1 for name in NAMES)


@both_databases
def test_a_killed_controller_is_followed_by_one_that_adopts(registry, controller, other):
    # Workers that write again and again: what must stop when only their parent is killed.
    busy = {
        **lifecycle(state="step", step="writing"),
        "register": "never",
        "until": False,
        "retries": 300,
        "delay": 0.2,
    }
    run = controller.start([BEGIN, play("stage_deploy", busy)])
    workers = []
    try:
        deadline = time.monotonic() + 60
        while not all(last_step(registry, name) == "writing" for name in NAMES):
            assert time.monotonic() < deadline and run.poll() is None
            time.sleep(0.2)
        output, recap = other.run([BEGIN])
        assert {numbers[1] for numbers in recap.values()} == {0}, output  # the owner lives: nobody is selected
        workers = [int(pid) for pid in pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
        assert len(workers) >= len(NAMES)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
        deadline = time.monotonic() + 5
        while any(map(runs, workers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(runs, workers))
    finally:
        for pid in [run.pid, *workers]:
            if runs(pid):
                os.kill(pid, signal.SIGKILL)
        run.wait()
        run.stdout.close()
    old = registry.node("gpu01")["fencing"]
    show = {"ansible.builtin.debug": {"msg": "{{ begun.adopted }} {{ begun.last_step }} {{ begun.fencing }}"}}
    output, _recap = other.run([BEGIN, play("stage_deploy", show)])
    assert output.count("True writing 2") == len(NAMES)
    with pytest.raises(errors.FencedOut):
        registry.check_fence("gpu01", old)
    assert registry.verify_audit()["ok"]


def last_step(registry, name):
    attempts = registry.attempts(name)
    return attempts[-1]["last_step"] if attempts else None


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_why_evidence_and_hold(registry, controller):
    item = {"check": "gpu3.ecc", "outcome": "fail", "value": 2, "limit": 0, "simulated": True}
    for stage in ("deploy", "software"):
        begin = registry.begin("gpu01", stage, actor=ME)
        registry.finish("gpu01", begin.attempt, begin.fencing, "pass", ME)
    plays = [
        play("gpu01", lifecycle(state="begin", stage="burn_in")),
        play(
            "stage_burn_in",
            {"aicluster.baremetal.evidence": {"items": [item]}, "register": "judged"},
            lifecycle(state="finish", outcome="{{ judged.outcome }}", reason="{{ judged.checks.fail | join(', ') }}"),
            {"aicluster.baremetal.hold": {"owner": "alice", "reason": "fan", "exit_condition": "fan replaced"}},
        ),
    ]
    _output, recap = controller.run(plays)
    assert recap["gpu01"] == [4, 3, 0, 0]
    assert registry.node("gpu01")["state"] == "quarantined"
    assert registry.evidence("gpu01")[0]["value"] == 2
    output, _recap = controller.run((ROOT / "playbooks" / "why.yml").read_text(), "-e", "node=gpu01")
    assert "gpu01 is not in service (state quarantined)." in output
    assert output.index("held by alice") < output.index("quarantined for") < output.index("simulated instrument")
    output, recap = controller.run((ROOT / "playbooks" / "why.yml").read_text(), "-l", "gpu01")
    assert "gpu01 is not in service (state quarantined)." in output and list(recap) == ["gpu01"]
    output, _recap = controller.run((ROOT / "playbooks" / "why.yml").read_text(), "-e", "node=gpu77", rc=2)
    assert "the registry has no such node" in output


def test_the_commands_that_why_names_do_it(registry, controller):
    def follow(text):
        done = []
        for command in re.findall(r"ansible gpu01 -m [\w.]+ -a '(?:[^']|'\"'\"')*'", text):
            words = shlex.split(command)
            words[0] = str(pathlib.Path(sys.executable).parent / words[0])
            done.append(
                subprocess.run(
                    [*words, "-i", "all.aicluster.yml"],
                    cwd=controller.path, env=controller.environment, capture_output=True, text=True, check=False, timeout=120,
                )
            )  # fmt: skip
            assert done[-1].returncode == 0, done[-1].stdout + done[-1].stderr
            assert "add_host" not in done[-1].stdout
        return len(done)

    for stage, outcome in (("deploy", "pass"), ("software", "pass"), ("burn_in", "fail")):
        begin = registry.begin("gpu01", stage, actor=ME)
        registry.finish("gpu01", begin.attempt, begin.fencing, outcome, ME, "because")
    registry.save_node("S1", ME, maintenance=True)
    for owner in ("alice@desk", "Bob o'Hara"):
        registry.hold("gpu01", owner, "fan", "fan replaced", False, ME)
    assert [entry["code"] for entry in registry.why("gpu01")] == ["maintenance", "hold", "hold", "quarantined"]
    assert [follow(entry["next_step"]) for entry in registry.why("gpu01")] == [1, 1, 1, 2]
    [last] = registry.why("gpu01")
    assert last["code"] == "state_burn_in" and registry.node("gpu01")["state"] == "burn_in"


def test_the_report_has_the_answers_of_why_and_of_the_gate(registry, controller):
    aside = {"check": "network", "outcome": "could_not_test", "gates": False}
    for name in ("gpu01", "gpu02", "gpu03"):
        for stage in ("deploy", "software", "burn_in", "enroll"):
            begin = registry.begin(name, stage, actor=ME)
            if stage == "burn_in":
                registry.record_evidence(name, begin.attempt, [{"check": "cpu_stress", "outcome": "pass"}, aside], ME)
            registry.finish(name, begin.attempt, begin.fencing, "pass", ME)
    for name in ("gpu01", "gpu02"):
        registry.acquire_lease(name, "slurm", ME)
    registry.hold("gpu02", "alice", "fan", "fan replaced", False, ME)
    registry.record_evidence("gpu04", None, [{"check": "deploy.identity", "outcome": "pass"}], ME)
    page = controller.path / "report.html"
    write = {"aicluster.baremetal.report": {"path": "report.html"}, "register": "written"}
    figures = "{{ written.in_service }} of {{ written.nodes }}, not {{ written.out_of_service | map(attribute='name') | join(' ') }}"
    where = {"ansible.builtin.debug": {"msg": "at {{ written.path }}"}}
    plays = [play("localhost", write, {"ansible.builtin.debug": {"msg": figures}}, where, connection="local")]
    output, recap = controller.run(plays)
    assert f"at {page}" in output and "1 of 6, not gpu02 gpu03" in output and recap["localhost"][1] == 1
    rows = dict(re.findall(r'<tr class="node"><td><a href="#(\w+)">(.*?)</tr>', page.read_text(), re.DOTALL))
    assert 'class="mark pass">pass<' in rows["gpu01"] and ">1 not counted<" in rows["gpu01"]
    assert ">not run<" in rows["gpu04"]
    _output, recap = controller.run(plays)
    assert recap["localhost"][1] == 0


def test_the_secret_lookup(registry, controller):
    store = controller.path / "secrets.yml"
    store.touch(0o600)
    store.write_text("site/gpu01: {username: admin, password: hunter2}\n")
    ask = play(
        "gpu01",
        {
            "ansible.builtin.assert": {
                "that": [
                    "lookup('aicluster.baremetal.secret', 'site/gpu01').password | length == 7",
                    "lookup('aicluster.baremetal.secret', 'site/gpu01', field='username') == 'admin'",
                ]
            }
        },
    )
    controller.run([ask])
    store.chmod(0o644)
    output, _recap = controller.run([ask], rc=2)
    assert "chmod 600" in output and "hunter2" not in output


def test_what_other_plugins_get_from_the_base(registry, controller):
    """A plugin over RegistryAction: credentials from the store or from another lookup, the fence before a write."""
    (controller.path / "action_plugins").mkdir()
    (controller.path / "action_plugins" / "probe.py").write_text(
        """
from ansible_collections.aicluster.baremetal.plugins.plugin_utils.base import RegistryAction


class ActionModule(RegistryAction):
    ARGUMENT_SPEC = {"fencing": {"type": "int"}, "reference": {"type": "str"}}

    def execute(self):
        self.check_fence()
        reference = self.params["reference"]
        return {"changed": False, "who": self.credential(reference)["username"] if reference else None, "fence": self.attempt[1]}
"""
    )
    store = controller.path / "secrets.yml"
    store.touch(0o600)
    store.write_text("site/gpu01: {username: from-the-store, password: hunter2}\n")
    show = {"ansible.builtin.debug": {"msg": "{{ seen.who }} fence {{ seen.fence }}"}}
    probe = {"probe": {"reference": "site/gpu01"}, "register": "seen"}
    other_store = {
        "aicluster_secret_lookup": "ansible.builtin.vars",
        "vault_gpu01": {"username": "from-vault", "password": "x"},
    }
    plays = [
        play("gpu01", lifecycle(state="begin", stage="deploy"), probe, show),
        play("gpu01", {"probe": {"reference": "vault_gpu01"}, "register": "seen"}, show, vars=other_store),
    ]
    output, _recap = controller.run(plays)
    assert "from-the-store fence 1" in output and "from-vault fence 1" in output and "hunter2" not in output
    output, _recap = controller.run([play("gpu01", {"probe": {"fencing": 7}})], rc=2)
    assert "a newer attempt owns the node" in output and '"code": "fenced_out"' in output
    output, _recap = controller.run([play("gpu01", {"probe": {"reference": "site/gpu09"}})], rc=2)
    assert "site/gpu09" in output and "hunter2" not in output


def test_check_mode_and_diff_of_node_and_hold(registry, controller):
    change = [
        {
            "aicluster.baremetal.node": {
                "serial": "S1",
                "rack": "r9",
                "maintenance": True,
                "host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NA x",
            }
        },
        {"aicluster.baremetal.node": {"serial": "S7", "name": "gpu07"}},
        {"aicluster.baremetal.node": {"serial": "S2", "state": "absent", "reason": "sold"}},
        {
            "aicluster.baremetal.hold": {
                "name": "gpu03",
                "owner": "alice",
                "reason": "fan",
                "exit_condition": "fan replaced",
            },
        },
    ]
    rows = registry.verify_audit()["rows"]
    output, recap = controller.run([play("localhost", *change)], "--check", "--diff")
    assert recap["localhost"][1] == 4
    assert '-rack: "r1"' in output and '+rack: "r9"' in output and '+state: "retired"' in output
    assert registry.verify_audit()["rows"] == rows
    for changed in (4, 0):
        _output, recap = controller.run([play("localhost", *change)])
        assert recap["localhost"][1] == changed
    assert registry.node("S2")["state"] == "retired"
    assert (
        registry.node("gpu01")["host_key"]
        == "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NA"
    )
    assert [hold["owner"] for hold in registry.holds("gpu03")] == ["alice"]
    assert registry.verify_audit()["ok"]


def test_what_is_refused_is_refused_in_check_mode_too(registry, controller):
    registry.transition("gpu02", "available", "retired", ME, consent="S2")
    node, info = "aicluster.baremetal.node", "aicluster.baremetal.node_info"
    hold, drain = "aicluster.baremetal.hold", "aicluster.baremetal.drain"
    words = {"reason": "fan", "exit_condition": "fan replaced"}
    refused = [
        ({hold: {"name": "S2", **words}}, "there is nothing to hold"),
        ({hold: {"name": "gpu01", **words, "reason": " "}}, "a hold needs its reason"),
        ({hold: {"name": "gpu01", **words, "exit_condition": " "}}, "a hold needs its exit condition"),
        (
            {drain: {"name": "gpu02", "owner": "alice", "reason": "fan", "scheduler": "none"}},
            "there is nothing to hold",
        ),
        ({drain: {"name": "gpu01", "owner": "alice", "reason": " ", "scheduler": "none"}}, "a hold needs its reason"),
        ({node: {"serial": "S1", "host_key": "garbage"}}, "this is no SSH public key"),
        ({node: {"serial": "S9", "name": "gpu09", "host_key": "garbage"}}, "this is no SSH public key"),
        ({node: {"serial": "S1", "rack": "r5", "provision_ip": "10.0.0.300"}}, "seen: 10.0.0.300; next: correct"),
        ({node: {"serial": "S1", "provision_ip": "10.0.0.1", "provision_prefix": 33}}, "do not go together"),
        ({node: {"serial": "S1", "bmc_address": "https://bmc"}}, "an IPv4 or IPv6 address or a host name"),
        ({node: {"serial": "S2", "rack": "r5"}}, "the node is retired"),
        ({node: {"serial": "S2", "name": "gpu02"}}, "the node is retired"),
        (lifecycle(state="transition", name="gpu01", to_state="active"), "available cannot become active"),
        (lifecycle(state="transition", name="gpu01", to_state="deploying"), "only an attempt at stage deploy"),
        (lifecycle(state="transition", name="gpu01", to_state="unknown"), "there is no such state"),
        ({info: {"states": ["unknown"]}}, "there is no such state"),
        ({info: {"names": ["gpu77"], "states": ["available"]}}, "the registry has no such node"),
        (
            {"aicluster.baremetal.registry": {"expected": [{"serial": "S1", "provision_ip": "x"}]}},
            "row 1, provision_ip",
        ),
    ]
    tasks = [{**task, "ignore_errors": True} for task, _words in refused]
    tasks.append({info: {"names": ["gpu02", "gpu01"], "states": ["available"]}})
    rows = registry.verify_audit()["rows"]
    for arguments in (["--check"], []):
        output, recap = controller.run([play("localhost", *tasks)], *arguments)
        assert recap["localhost"][1] == 0 and f"ignored={len(refused)}" in output, output
        for _task, words in refused:
            assert words in output, words
    assert registry.verify_audit()["rows"] == rows
    (controller.path / "all.aicluster.yml").write_text("plugin: aicluster.baremetal.registry\nstates: [unknown]\n")
    output, _recap = controller.run([play("nodes", {info: {}})])
    assert "there is no such state" in output


def test_what_cannot_be_taken_back_needs_the_serials_of_all_nodes_first(registry, controller):
    names = ["gpu01", "gpu02", "gpu03"]
    serials = {name: registry.node(name)["serial"] for name in names}
    rows = registry.verify_audit()["rows"]

    def retire(consents, *arguments, rc=0):
        task = lifecycle(state="transition", to_state="retired", names=names, **consents)
        return controller.run([play("localhost", task)], *arguments, rc=rc)

    for consents in ({}, {"consents": {**serials, "gpu02": "gpu02"}}, {"consents": {"gpu01": serials["gpu01"]}}):
        for arguments in (["--check"], []):
            output, _recap = retire(consents, *arguments, rc=2)
            assert "none was moved" in output and "gpu02" in output and serials["gpu02"] not in output
    one = lifecycle(state="transition", to_state="retired", name="gpu01", consent=serials["gpu02"])
    output, _recap = controller.run([play("localhost", one)], rc=2)
    assert "retired needs consent by serial number" in output
    absent = {"aicluster.baremetal.node": {"serial": "gpu01", "state": "absent"}}
    output, _recap = controller.run([play("localhost", absent)], rc=2)
    assert "consent by serial number" in output
    assert registry.verify_audit()["rows"] == rows
    output, recap = retire({"consents": serials}, "--check", "--diff")
    assert '+gpu02.state: "retired"' in output and registry.verify_audit()["rows"] == rows
    for changed in (1, 0):
        _output, recap = retire({"consents": serials})
        assert recap["localhost"][1] == changed
    assert {registry.node(serial)["state"] for serial in serials.values()} == {"retired"}


def test_a_node_is_not_taken_from_its_scheduler(registry, controller):
    registry.acquire_lease("gpu01", "slurm", ME)
    registry.acquire_lease("gpu02", "kubernetes", ME)
    begin = {**lifecycle(state="begin", stage="deploy"), "register": "begun"}
    output, recap = controller.run([play("nodes", begin)], "--limit", "gpu01,gpu03")
    assert recap["gpu01"][1] == 0 and recap["gpu03"][1] == 1 and "the node is leased to slurm" in output
    serial = registry.node("gpu02")["serial"]
    rows = registry.verify_audit()["rows"]
    drain = {"owner": "alice", "reason": "x", "name": "gpu02", "release": True}
    for task, words in (
        (
            {"aicluster.baremetal.lease": {"name": "gpu01", "lease": "slurm", "state": "released"}},
            "no Slurm controller",
        ),
        (
            {"aicluster.baremetal.lease": {"name": "gpu02", "lease": "kubernetes", "state": "released"}},
            "wanted: consent",
        ),
        ({"aicluster.baremetal.lease": {"name": "gpu02", "lease": "slurm", "state": "released"}}, "belongs to another"),
        ({"aicluster.baremetal.drain": drain}, "wanted: wait: true"),
        ({"aicluster.baremetal.drain": {**drain, "wait": True, "scheduler": "none"}}, "leased to kubernetes"),
    ):
        for arguments in (["--check"], []):
            output, _recap = controller.run([play("localhost", task)], *arguments, rc=2)
            assert words in output, output
    assert registry.verify_audit()["rows"] == rows
    release = {"name": "gpu02", "lease": "kubernetes", "state": "released", "consent": serial}
    output, recap = controller.run([play("localhost", {"aicluster.baremetal.lease": release})], "--check", "--diff")
    assert recap["localhost"][1] == 1 and '-lease: "kubernetes"' in output
    for changed in (1, 0):
        _output, recap = controller.run([play("localhost", {"aicluster.baremetal.lease": release})])
        assert recap["localhost"][1] == changed


def bulk(*nodes, **more):
    return {"aicluster.baremetal.node": {"nodes": list(nodes), **more}, "register": "told"}


def test_many_nodes_are_registered_in_one_task(registry, controller):
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NGJhc2U2NA"
    task = bulk(
        {"serial": "S1", "rack": "r9", "host_key": key + " x"},
        {
            "serial": "N1",
            "name": "new01",
            "rack": "r9",
            "slot": "u1",
            "provision_prefix": "24",
            "provision_ip": "10.9.0.1",
        },
        {"serial": "N2", "name": "new02", "initial_state": "manageable", "parts": [{"kind": "gpu", "slot": 0}]},
        {"serial": "S2", "state": "absent", "reason": "sold"},
        {"serial": "S3", "provision_ip": "10.9.0.300"},
        {"serial": "S4", "name": "gpu05"},
    )
    show = {
        "ansible.builtin.debug": {"msg": "failed {{ told.failed_serials }} {{ told.nodes | map(attribute='changed') }}"}
    }
    rows = registry.verify_audit()["rows"]
    for arguments, changed in ((["--check", "--diff"], 1), (["--diff"], 1), ([], 0)):
        output, recap = controller.run([play("localhost", task, show)], *arguments)
        assert recap["localhost"][1] == changed
        words = "True, True, True, True" if changed else "False, False, False, False"
        assert f"failed ['S3', 'S4'] [{words}, False, False]" in output.replace('"', "'"), output
        assert "10.9.0.300" in output and "gpu05 belongs to" in output
        if changed:
            assert (
                '+S1.rack: "r9"' in output
                and '+N1.provision_ip: "10.9.0.1"' in output
                and '+S2.state: "retired"' in output
            )
        if "--check" in arguments:
            assert registry.verify_audit()["rows"] == rows
    assert {name: registry.node(name)["state"] for name in ("S1", "new01", "N2", "S2")} == {
        "S1": "available",
        "new01": "registered",
        "N2": "manageable",
        "S2": "retired",
    }
    assert registry.node("S1")["host_key"] == key and registry.node("N1")["provision_prefix"] == 24
    assert registry.node("N2")["parts"][0]["slot"] == "0"
    assert registry.verify_audit()["ok"]


def test_a_list_of_nodes_that_cannot_be_meant_is_refused_before_anything_is_written(registry, controller):
    first = {"serial": "N1", "name": "new01", "rack": "r9", "slot": "u1", "provision_mac": "52:54:00:00:09:01"}
    refused = [
        (bulk(first, {"serial": "N1", "name": "new02"}), "two nodes of the list have one serial"),
        (bulk(first, {"serial": " N1 ", "name": "new02"}), "two nodes of the list have one serial"),
        (bulk(first, {"serial": "N2", "name": "new01"}), "two nodes of the list have one name"),
        (
            bulk(first, {"serial": "N2", "name": "new02", "rack": "r9", "slot": "u1"}),
            "two nodes of the list have one place",
        ),
        (bulk(first, {"serial": "N2", "name": "n", "provision_mac": "52-54-00-00-09-01"}), "have one provision_mac"),
        (bulk(first, {"name": "new02"}), "nodes, row 2, serial"),
        (bulk(first, {"serial": "N2", "rak": "r1"}), "did you mean rack for rak?"),
        (bulk(first, {"serial": "N2", "bmc_port": "many"}), "nodes, row 2"),
        (bulk(first, serial="N2"), "mutually exclusive"),
        (bulk(first, rack="r1"), "mutually exclusive"),
        ({"aicluster.baremetal.node": {"name": "new01"}}, "serial, nodes"),
        (bulk({"serial": "S1", "bmc_address": "https://bmc"}, {"serial": "N2"}), "all 2 nodes failed; first: "),
    ]
    rows = registry.verify_audit()["rows"]
    tasks = [{**task, "ignore_errors": True} for task, _words in refused]
    for arguments in (["--check"], []):
        output, recap = controller.run([play("localhost", *tasks)], *arguments)
        assert recap["localhost"][1] == 0 and f"ignored={len(refused)}" in output, output
        for _task, words in refused:
            assert words in output, (words, output)
    assert registry.verify_audit()["rows"] == rows
    output, recap = controller.run([play("localhost", bulk())])
    assert recap["localhost"][1] == 0


def test_resume_fails_where_it_was_not_seen_that_the_node_takes_work(registry, controller):
    for stage in ("deploy", "software", "burn_in", "enroll"):
        begun = registry.begin("gpu01", stage, actor=ME)
        registry.finish("gpu01", begun.attempt, begun.fencing, "pass", ME)
    registry.acquire_lease("gpu01", "slurm", ME)
    tools = controller.path / "tools"
    tools.mkdir()
    for name, text in (("scontrol", 'cat "$(dirname "$0")/says"'), ("squeue", "true")):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)

    def resume(name, scheduler, *arguments, rc=0):
        task = {"name": name, "owner": "alice", "automation": False, "scheduler": scheduler}
        task.update({"slurm_controller": "localhost"} if scheduler == "slurm" else {})
        environment = {"PATH": f"{tools}:{os.environ['PATH']}"}
        asked = {"aicluster.baremetal.resume": task, "environment": environment, "register": "found"}
        shown = {"ansible.builtin.debug": {"msg": "SAID {{ found.in_service }} {{ found.kept_by | join('; ') }} END"}}
        return " ".join(controller.run([play("localhost", asked, shown)], *arguments, rc=rc)[0].split())

    registry.hold("gpu03", "alice", "fan", "fan replaced", False, ME)
    assert "SAID False state available, in which a node takes no work END" in resume("gpu03", "none", "--check")
    assert "SAID False state available, in which a node takes no work END" in resume("gpu03", "none")
    assert not registry.holds("gpu03")
    says = tools / "says"
    says.write_text("NodeName=gpu01 CPUTot=2\n   State=IDLE\n")
    assert "SAID True END" in resume("gpu01", "slurm")
    for state, seen in (("DOWN*", "state DOWN+NOT_RESPONDING"), ("IDLE+MAINTENANCE", "state IDLE+MAINTENANCE")):
        says.write_text(f"NodeName=gpu01 CPUTot=2\n   State={state}\n")
        for arguments in (["--check"], []):
            output = resume("gpu01", "slurm", *arguments, rc=2)
            assert "the node stays out of work" in output and f"scheduler: {seen}" in output


def test_hardware_that_is_simulated_by_now_or_no_more_is_recorded_anew(registry, controller):
    tools = controller.path / "tools"
    tools.mkdir()
    (tools / "slurmd").write_text(
        "#!/bin/sh\necho NodeName=gpu01 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=900\n"
    )
    (tools / "slurmd").chmod(0o755)
    task = {"aicluster.baremetal.slurm_hardware": {}, "environment": {"PATH": f"{tools}:{os.environ['PATH']}"}}
    plays = [play("gpu01", task)]

    def changed():
        return controller.run(plays, "-e", "ansible_connection=local")[1]["gpu01"][1]

    assert (changed(), changed()) == (1, 0)
    [item] = registry.evidence("gpu01")
    registry.record_evidence(
        "gpu01", None, [{"check": "slurm_hardware", "outcome": "pass", "simulated": True, "detail": item["detail"]}], ME
    )
    assert (changed(), changed()) == (1, 0) and not registry.evidence("gpu01")[0]["simulated"]


def test_enroll_in_check_mode_foretells_the_lines_of_slurm_conf(registry, controller):
    tasks = yaml.safe_load((ROOT / "playbooks" / "tasks" / "enroll_node.yml").read_text())
    [lines] = [task for task in tasks if "aicluster.baremetal.slurm_nodes_info" in task]
    hardware = {
        "cpus": 2,
        "boards": 1,
        "sockets": 1,
        "cores": 2,
        "threads": 1,
        "real_memory_mib": 900,
        "gpus": 8,
        "gpu_type": "h100",
    }
    seen = {
        "ansible.builtin.set_fact": {"enroll_hardware": {"hardware": hardware}},
        "when": "inventory_hostname != 'gpu03'",
    }
    shown = {"ansible.builtin.debug": {"msg": "LINES {{ enroll_lines.nodes | map(attribute='name') | join(' ') }} END"}}
    plays = [play("gpu01,gpu02,gpu03", seen, lines, shown)]
    assert "LINES gpu01 gpu02 END" in controller.run(plays, "--check")[0]
    assert "LINES  END" in controller.run(plays)[0], "the run reads the registry alone"


@pytest.mark.parametrize(
    ("drained", "reason"),
    [
        ({"changed": True}, "no GPU"),
        ({"error": {"code": "first_job_failed"}, "msg": "again"}, "no GPU"),
        ({"error": {"code": "slurm_down"}, "msg": "no answer"}, "no GPU; and it could not be drained again: no answer"),
    ],
)
def test_a_failed_enrolment_says_when_the_node_was_not_drained_again(controller, drained, reason):
    book = yaml.safe_load((ROOT / "playbooks" / "enroll.yml").read_text())
    [joining] = [some for some in book if some.get("hosts") == "stage_enroll"]
    [record] = [task for task in joining["tasks"][0]["rescue"] if "block" in task]
    text = record["block"][1]["aicluster.baremetal.node_lifecycle"]["reason"]
    failure = {"msg": "no GPU", "error": {"code": "first_job_failed"}}
    told = {"ansible.builtin.debug": {"msg": f"REASON {text} END"}}
    output, _recap = controller.run(
        [
            play(
                "localhost",
                told,
                vars={
                    "stage_failure": {"reason": "no GPU"},
                    "enroll_failure": failure,
                    "enroll_drained_again": drained,
                },
            )
        ]
    )
    assert f"REASON {reason} END" in output


def test_the_playbook_finds_a_tampered_audit_row(registry, controller):
    book = (ROOT / "playbooks" / "registry.yml").read_text()
    output, _recap = controller.run(book)
    assert "The audit chain is whole" in output
    with registry._db.engine.connect() as connection, connection.begin():
        connection.exec_driver_sql("UPDATE audit SET actor = 'mallory' WHERE seq = 5")
    output, _recap = controller.run(book, rc=2)
    assert "The audit chain is broken: row 5 was changed" in output and "by mallory" in output
    assert "rows are there; next: keep a copy of the database" in " ".join(output.split()) and "first_bad" not in output


def test_errors_say_what_to_do(controller):
    output, _recap = controller.run([play("localhost", {"aicluster.baremetal.node_info": {}})], rc=2)
    assert "the registry is empty" in output and "aicluster.baremetal.registry" in output
    del controller.environment["AICLUSTER_REGISTRY"]
    output, _recap = controller.run(
        [
            play(
                "localhost", {"aicluster.baremetal.node_info": {"registry": "{{ aicluster_registry | default(omit) }}"}}
            )
        ],
        rc=2,
    )
    assert "AICLUSTER_REGISTRY" in output
