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
    registry.transition("gpu02", "available", "retired", ME)
    node, info = "aicluster.baremetal.node", "aicluster.baremetal.node_info"
    refused = [
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
