# What the boot server answers, asked from outside of it: in the controller's namespace, and as the unknown machine that the lab's node is.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import os
import sys

import pytest

testinfra_hosts = ["local://"]
LAB = os.environ["MOLECULE_LAB_DIR"]
NAME = os.path.basename(LAB)
API, IMAGES = "http://10.77.1.1:8000", "http://10.77.1.1:8080"


def http(host, url, *arguments):
    """(status, body)"""
    told = host.run(f"curl -s -m 10 -w '\\n%{{http_code}}' {' '.join(arguments)} '{url}'")
    assert told.rc == 0, told.stderr
    body, _newline, status = told.stdout.rpartition("\n")
    return int(status), body


@pytest.mark.parametrize("program", ["dnsmasq", "nginx", "boot-service"])
def test_program_is_kept_running(host, program):
    control = f"{os.path.dirname(sys.executable)}/supervisorctl -c {LAB}/supervisord.conf status {program}"
    assert "RUNNING" in host.check_output(control)


def test_unknown_machine_is_sent_to_its_disk(host):
    status, script = http(host, f"{API}/boot.ipxe?mac=52:54:00:00:00:99")
    assert status == 200 and script.startswith("#!ipxe") and "exit 1" in script
    assert "kernel" not in script and "aicluster.session" not in script


def test_a_made_up_grant_is_no_grant(host):
    status, script = http(host, f"{API}/boot.ipxe?mac=52:54:00:77:00:01&grant=0123456789abcdef")
    assert status == 403 or "exit 1" in script
    assert "kernel" not in script and "aicluster.session" not in script


@pytest.mark.parametrize(
    "method, path", [("GET", "spec"), ("GET", "seed"), ("POST", "write-permit"), ("POST", "events")]
)
def test_without_a_session_nothing_is_told(host, method, path):
    status, _body = http(host, f"{API}/v1/{path}", "-X", method, "" if method == "GET" else "-d step=done")
    assert status in (401, 403)


def test_image_server_lists_nothing_and_gives_no_file_of_a_tree(host):
    for path in ("/", "/images/", "/images/molecule-node/", "/images/molecule-node/root/etc/shadow", "/../etc/passwd"):
        status, _body = http(host, IMAGES + path, "--path-as-is")
        assert status in (400, 403, 404), path


def test_loader_comes_by_tftp(host):
    told = host.run("curl -s -m 10 tftp://10.77.1.1/snponly.efi -o - | head -c 2")
    assert told.stdout == "MZ"


def test_machine_without_a_grant_gets_no_address(host):
    told = host.run(f"nsenter --net=/run/netns/{NAME}-gpu01 busybox udhcpc -f -n -q -i eth0 -t 2 -T 1 -s /bin/true")
    assert told.rc != 0 and "no lease" in told.stderr


def test_secrets_are_for_their_owner_only(host):
    settings = host.file(f"{LAB}/boot/settings.json")
    assert settings.mode == 0o600
    key = json.loads(settings.content_string)["session_key"]
    assert len(key) == 64
    assert host.file(f"{LAB}/boot/session.key").mode == 0o600
    assert key not in host.check_output("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
