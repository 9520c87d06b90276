# The boot service over a real registry: one grant gives one deploy boot; everything else boots the local disk or is refused.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
import threading

import pytest

from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot.service import create_app

MAC, ADDRESS = "52:54:00:77:00:01", "10.77.1.11"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEhvc3RLZXlIb3N0S2V5SG9zdEtleUhvc3RLZXlIb3N0 root@gpu01"


class Node:
    """One node's calls."""

    def __init__(self, app, address=ADDRESS):
        self.client, self.address, self.key = app.test_client(), address, None

    def ask(self, mac=MAC, grant=None):
        query = {"mac": mac, **({"grant": grant} if grant else {})}
        answer = self.client.get("/boot.ipxe", query_string=query, environ_overrides={"REMOTE_ADDR": self.address})
        text = answer.get_data(as_text=True)
        found = re.search(r"aicluster\.session=(\S+)", text)
        self.key = found[1] if found else self.key
        return answer.status_code, text

    def call(self, method, path, key=None, **data):
        answer = self.client.open(
            path,
            method=method,
            data=data or None,
            headers={"X-Boot-Session": key or self.key or ""},
            environ_overrides={"REMOTE_ADDR": self.address},
        )
        return answer.status_code, answer.get_data()


@pytest.fixture
def app(lab, boot_settings):
    return create_app(lab.registry, boot_settings)


def boots_disk(answer):
    status, text = answer
    return status == 200 and text.rstrip().endswith("exit 1") and "kernel" not in text


def test_default_is_the_local_disk(app, lab):
    assert boots_disk(Node(app, "10.77.1.12").ask("52:54:00:77:00:02"))
    assert boots_disk(Node(app, "10.77.1.99").ask("52:54:00:77:00:99"))
    assert "grant_refused" not in lab.audit_codes()


def test_a_whole_deploy_boot(app, lab, tmp_path):
    lab.grant()
    node = Node(app)
    status, script = node.ask()
    assert status == 200 and "http://10.77.1.1:8080/images/deb/vmlinuz" in script
    assert node.call("POST", "/v1/events", step="ramdisk", detail="up 4 s")[0] == 200
    answer = json.loads(node.call("GET", "/v1/spec")[1])
    assert answer["image"]["url"] == "http://10.77.1.1:8080/images/deb/disk.raw" and answer["serial"] == "S-1"
    shell = node.call("GET", "/v1/spec?format=sh")[1].decode()
    assert (
        subprocess.run(["sh", "-c", shell + 'echo "$IMAGE_SHA256"'], capture_output=True, text=True, check=True).stdout
        == "a" * 64 + "\n"
    )
    status, data = node.call("GET", "/v1/seed")
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == ["meta-data", "network-config", "user-data"]
    assert node.call("POST", "/v1/write-permit")[0] == 200
    for step in ("disk_chosen", "writing", "written"):
        assert node.call("POST", "/v1/events", step=step)[0] == 200
    assert node.call("POST", "/v1/events", step="seeded", host_key=HOST_KEY)[0] == 200
    assert node.call("POST", "/v1/events", step="done")[0] == 200
    assert lab.steps() == ["loader", "ramdisk", "disk_chosen", "writing", "written", "seeded", "done"]
    assert lab.registry.node("gpu01")["host_key"] == " ".join(HOST_KEY.split()[:2])
    assert "write_permit" in lab.audit_codes()
    # The node asks again, as after ten resets: the disk, and the replay is written down.
    assert boots_disk(node.ask())
    assert "grant_refused" in lab.audit_codes()
    assert lab.registry.verify_audit()["ok"]


def test_of_many_that_ask_at_once_one_gets_the_script(app, lab):
    lab.grant()
    nodes = [Node(app) for _turn in range(8)]
    threads = [threading.Thread(target=node.ask) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(node.key is not None for node in nodes) == 1


def refusal(lab):
    rows = [row for row in lab.registry.audit_rows() if row["action"] in ("grant_refused", "boot_refused")]
    return json.loads(rows[-1]["detail"])["code"] if rows else None


def test_replayed_expired_foreign_superseded_and_unknown_tokens(app, lab):
    old = lab.grant()
    token = lab.grant()
    node = Node(app)
    assert boots_disk(node.ask(grant="guess")) and refusal(lab) == "grant_unknown"
    assert boots_disk(node.ask(grant=old)) and refusal(lab) == "grant_superseded"
    assert boots_disk(Node(app, "10.77.1.12").ask("52:54:00:77:00:02", grant=token)) and refusal(lab) == "grant_foreign"
    assert not boots_disk(node.ask(grant=token))
    assert boots_disk(node.ask(grant=token)) and refusal(lab) == "grant_used"
    short = lab.grant(ttl_s=0.05)
    threading.Event().wait(0.1)
    assert boots_disk(node.ask(grant=short)) and refusal(lab) == "grant_expired"
    assert boots_disk(node.ask()) and refusal(lab) == "grant_expired"


def test_the_mac_alone_from_another_address_gets_nothing(app, lab):
    lab.grant()
    assert boots_disk(Node(app, "10.77.1.50").ask()) and refusal(lab) == "grant_foreign"
    assert not boots_disk(Node(app).ask()), "the refusal must not use up the node's own grant"


def test_outside_the_provisioning_network_nothing_but_health(app, lab):
    lab.grant()
    stranger = Node(app, "192.0.2.1")
    assert stranger.ask()[0] == 403
    assert stranger.call("GET", "/v1/spec", key="x")[0] == 403
    assert stranger.call("GET", "/healthz")[0] == 200
    assert not boots_disk(Node(app).ask())


def test_sessions_are_refused_when_missing_forged_or_foreign(app, lab):
    lab.grant()
    node = Node(app)
    node.ask()
    assert Node(app).call("GET", "/v1/spec")[0] == 401
    assert node.call("GET", "/v1/spec", key=node.key[:-3] + "AAA")[0] == 403
    assert Node(app, "10.77.1.12").call("POST", "/v1/write-permit", key=node.key)[0] == 403


def test_a_boot_of_an_ended_attempt_gets_no_permit_and_its_messages_are_late(app, lab):
    lab.grant()
    node = Node(app)
    node.ask()
    lab.registry.finish("gpu01", lab.begin.attempt, lab.begin.fencing, "fail", "test", reason="given up")
    assert node.call("POST", "/v1/write-permit")[0] == 409
    assert node.call("GET", "/v1/spec")[0] == 409
    assert node.call("POST", "/v1/events", step="written", host_key=HOST_KEY)[0] == 409
    assert lab.steps()[-1] == "late"
    assert lab.registry.node("gpu01")["host_key"] is None


def test_a_newer_grant_of_the_same_attempt_shuts_the_older_boot_out(app, lab):
    lab.grant()
    first, second = Node(app), Node(app)
    first.ask()
    lab.grant()
    assert first.call("POST", "/v1/write-permit")[0] == 409
    second.ask()
    assert second.call("POST", "/v1/write-permit")[0] == 200
    assert first.call("POST", "/v1/events", step="writing")[0] == 409


def test_a_ramdisk_cannot_claim_what_others_see(app, lab):
    lab.grant()
    node = Node(app)
    node.ask()
    for step in ("ssh", "power_on", "late", "nonsense", ""):
        assert node.call("POST", "/v1/events", step=step)[0] == 400
    assert node.call("POST", "/v1/events", step="seeded", host_key="rubbish")[0] == 400
    assert lab.steps() == ["loader"]


def test_bad_mac_is_a_bad_request(app):
    assert Node(app).ask("nonsense")[0] == 400
