#!/usr/bin/env python
# Boots one blank virtual server from the network into an image's deploy ramdisk, against a stand-in for the boot service, until
# SSH answers from the disk; prints when each step happened. Everything runs in a network namespace that it makes and removes.
# usage (root): run.py IMAGE_DIRECTORY [--case ok|checksum|small|two|denied|foreign] [--cpus N] [--disk nvme|scsi|virtio] [--keep DIR] [--limit S]
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = pathlib.Path(__file__).resolve().parents[3]
for _name, _path in (
    ("ansible_collections", None),
    ("ansible_collections.aicluster", None),
    ("ansible_collections.aicluster.baremetal", ROOT),
):
    _module = types.ModuleType(_name)
    _module.__path__ = [str(_path)] if _path else []
    sys.modules[_name] = _module
from ansible_collections.aicluster.baremetal.plugins.module_utils.netboot import ipxe, seed, spec  # noqa: E402

MAC, SERVER, NODE, SERIAL, SESSION = (
    "52:54:00:78:00:01",
    "10.77.9.1",
    "10.77.9.11",
    "LAB-RAMDISK-0001",
    "session-of-this-test",
)
API, IMAGES = f"http://{SERVER}:8000", f"http://{SERVER}:8080/images"


class Bench:
    def __init__(self, options):
        self.options, self.processes, self.events = options, [], []
        self.qemu = None
        self.dir = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="deploy-ramdisk-"))
        self.dir.mkdir(parents=True, exist_ok=True)
        self.served, self.began, self.done = False, None, threading.Event()

    def mark(self, step, detail=""):
        self.events.append((time.monotonic() - self.began if self.began else 0.0, step, detail))
        # The second figure is the machine's own processor time: it tells what a step costs even where other work runs beside it.
        print(f"{self.events[-1][0]:7.1f} {self.processor_seconds():7.1f}  {step:<12} {detail}", flush=True)

    def processor_seconds(self):
        try:
            fields = pathlib.Path(f"/proc/{self.qemu.pid}/stat").read_text().rpartition(")")[2].split()
        except (AttributeError, OSError):
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def start(self, name, *command):
        log = (self.dir / f"{name}.log").open("wb")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def prepare(self):
        case, manifest = self.options.case, json.loads((self.options.image / "manifest.json").read_text())
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.dir / "id"],
            check=True,
            input=b"y\n",
            stdout=subprocess.DEVNULL,
        )
        image = spec.image_from_manifest(manifest, manifest["name"])
        if case == "checksum":
            image["sha256"] = "0" * 64
        files = seed.render(
            "gpu01",
            "attempt-1",
            [(self.dir / "id.pub").read_text()],
            [seed.interface("eth0", MAC, NODE + "/24")],
            {"write_files": [{"path": "/run/from-the-seed", "content": "applied\n"}]},
        )
        rule = spec.disk_rule(
            self.options.disk if self.options.disk == "nvme" else "any", "1 MiB" if case == "small" else "2 GiB"
        )
        serial = "ANOTHER-SERIAL" if case == "foreign" else SERIAL
        self.answer = spec.for_ramdisk(
            spec.build("gpu01", serial, "attempt-1", image, rule, files), IMAGES, API, seed.sha256(seed.archive(files))
        )
        self.seed = seed.archive(files)
        for name in ("tftp", "www"):
            (self.dir / name).mkdir(exist_ok=True)
        shutil.copy("/usr/lib/ipxe/snponly.efi", self.dir / "tftp")
        if not (self.dir / "www" / "images").exists():
            (self.dir / "www" / "images").symlink_to(self.options.image.parent.resolve())
        (self.dir / "dnsmasq.conf").write_text(
            f"interface=br0\nbind-interfaces\nport=0\nno-ping\ndhcp-range={SERVER},static\ndhcp-host={MAC},{NODE}\ndhcp-option=option:router\n"
            f"enable-tftp\ntftp-root={self.dir}/tftp\ndhcp-match=set:ipxe,175\ndhcp-boot=tag:!ipxe,snponly.efi\n"
            f"dhcp-boot=tag:ipxe,{API}/boot.ipxe?mac=${{net0/mac}}\nlog-dhcp\nuser=root\n"
        )
        (self.dir / "nginx.conf").write_text(
            f"worker_processes 1; pid {self.dir}/nginx.pid; error_log {self.dir}/nginx.err; daemon off; user root;\n"
            f"events {{}} http {{ access_log {self.dir}/nginx.access; sendfile on; tcp_nopush on; server {{ listen {SERVER}:8080; root {self.dir}/www; }} }}\n"
        )
        for command in (
            "ip link set lo up",
            "ip link add br0 type bridge stp_state 0 forward_delay 0",
            f"ip addr add {SERVER}/24 dev br0",
            "ip link set br0 up",
            "ip tuntap add dev tap0 mode tap",
            "ip link set tap0 master br0 up",
        ):
            subprocess.run(command.split(), check=True)
        self.start(
            "dnsmasq",
            "dnsmasq",
            "-k",
            "-C",
            str(self.dir / "dnsmasq.conf"),
            "--pid-file=",
            f"--dhcp-leasefile={self.dir}/leases",
        )
        self.start("nginx", "nginx", "-c", str(self.dir / "nginx.conf"))
        bench = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def reply(self, status, body=b""):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                path = self.path.partition("?")[0]
                if path == "/boot.ipxe":
                    bench.mark("loader", "second time: local disk" if bench.served else "")
                    url = f"{IMAGES}/{bench.answer['image']['name']}"
                    text = (
                        ipxe.local_disk()
                        if bench.served
                        else ipxe.deploy("gpu01", "attempt-1", url, API, SESSION, MAC, bench.options.arguments)
                    )
                    bench.served = True
                    return self.reply(200, text.encode())
                if self.headers.get("X-Boot-Session") != SESSION:
                    return self.reply(403)
                body = {"/v1/spec": spec.as_shell(bench.answer).encode(), "/v1/seed": bench.seed}.get(path)
                return self.reply(200 if body else 404, body or b"")

            def do_POST(self):
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                if self.path == "/v1/write-permit":
                    bench.mark("permit", "refused" if bench.options.case == "denied" else "given")
                    return self.reply(409 if bench.options.case == "denied" else 200)
                bench.mark(form["step"][0], form.get("detail", [""])[0])
                if "host_key" in form:
                    (bench.dir / "known_hosts").write_text(f"{NODE} {form['host_key'][0]}\n")
                if form["step"][0] in ("failed", "done"):
                    bench.done.set()
                self.reply(200)

        server = ThreadingHTTPServer((SERVER, 8000), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def power_on(self):
        options, work = self.options, self.dir
        shutil.copy("/usr/share/OVMF/OVMF_VARS_4M.fd", work / "vars.fd")
        device = {
            "nvme": "nvme,id=disk%d,drive=d%d,serial=DISK%d",
            "virtio": "virtio-blk-pci,id=disk%d,drive=d%d,serial=DISK%d",
        }.get(options.disk, "scsi-hd,id=disk%d,drive=d%d,serial=DISK%d,rotation_rate=1")
        command = [
            "qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", options.cpu, "-smp", str(options.cpus), "-m", str(options.memory),
            "-display", "none", "-vga", "none", "-nodefaults", "-smbios", f"type=1,manufacturer=Lab,product=VirtualServer,serial={SERIAL}",
            "-qmp", f"unix:{work}/qmp,server=on,wait=off", "-S", "-serial", f"file:{work}/console.log", "-device", "virtio-rng-pci",
            "-netdev", "tap,id=n0,ifname=tap0,script=no,downscript=no", "-device", f"virtio-net-pci,id=net0,netdev=n0,mac={MAC},bootindex=1",
            "-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
            "-drive", f"if=pflash,format=raw,unit=1,file={work}/vars.fd",
        ]  # fmt: skip
        if options.disk == "scsi":
            command += ["-device", "virtio-scsi-pci,id=scsi0"]
        for number in range(2 if options.case == "two" else 1):
            disk = work / f"disk{number}.raw"
            disk.unlink(missing_ok=True)
            with disk.open("wb") as handle:
                handle.truncate((256 << 20) if options.case == "small" else (8 << 30))
            command += [
                "-drive",
                f"if=none,id=d{number},file={disk},format=raw,cache=unsafe,discard=unmap,detect-zeroes=unmap",
            ]
            command += ["-device", (device % (number, number, number)) + f",bootindex={number + 2}"]
        (work / "console.log").write_bytes(b"")
        self.began = time.monotonic()
        self.qemu = self.start("qemu", *command)
        deadline = time.monotonic() + 10
        while True:
            try:
                monitor = socket.socket(socket.AF_UNIX)
                monitor.connect(f"{work}/qmp")
                break
            except OSError:
                if time.monotonic() > deadline or self.qemu.poll() is not None:
                    raise
                time.sleep(0.05)
        stream = monitor.makefile("rw")
        stream.readline()

        def ask(execute, **arguments):
            stream.write(json.dumps({"execute": execute, "arguments": arguments}) + "\n")
            stream.flush()
            while True:
                reply = json.loads(stream.readline())
                if "return" in reply or "error" in reply:
                    return reply

        ask("qmp_capabilities")
        # What a BMC's one-time override does: this start from the network, the next reset from the disk.
        for name, index in (("disk0", 102), ("net0", 103), ("disk0", 1), ("net0", 9)):
            ask("qom-set", path=f"/machine/peripheral/{name}", property="bootindex", value=index)
        ask("cont")
        self.mark("power_on")
        threading.Thread(target=self.watch_events, args=(stream,), daemon=True).start()
        threading.Thread(target=self.watch_console, daemon=True).start()

    def watch_events(self, stream):
        for line in stream:
            if json.loads(line).get("event") in ("RESET", "SHUTDOWN"):
                self.mark("machine", json.loads(line)["event"])

    def watch_console(self):
        marks = {
            "Linux version": "kernel", "Run /init": "init", "aicluster-deploy": "ramdisk log", "Command line": "command line",
            "systemd[1]": "systemd", "login:": "getty", "Loading, please wait": "initramfs", "cloud-init": "cloud-init",
        }  # fmt: skip
        with (
            (self.dir / "console.log").open(errors="replace") as console,
            (self.dir / "console.times").open("w") as times,
        ):
            while self.qemu.poll() is None:
                line = console.readline()
                if not line:
                    time.sleep(0.05)
                    continue
                times.write(f"{time.monotonic() - self.began:7.1f} {line}")
                times.flush()
                for text, name in marks.items():
                    if text in line and self.options.verbose:
                        self.mark(name, line.strip()[:150])

    def ssh(self, command, timeout=60):
        return subprocess.run(
            ["ssh", "-i", self.dir / "id", "-o", f"UserKnownHostsFile={self.dir}/known_hosts", "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes",
             "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=3", f"root@{NODE}", command],
            capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def deploy(self):
        limit = time.monotonic() + self.options.limit
        while not self.done.wait(1) and time.monotonic() < limit and self.qemu.poll() is None:
            pass
        if not self.done.is_set():
            raise SystemExit(
                f"no done or failed event within {self.options.limit} s or before power off; last: {self.events[-1]}; console: {self.dir}/console.log"
            )
        if self.options.case != "ok":
            reason = [detail for _time, step, detail in self.events if step == "failed"]
            try:
                self.qemu.wait(20)
                off = True
            except subprocess.TimeoutExpired:
                off = False
            with (self.dir / "disk0.raw").open("rb") as handle:
                blank = not any(handle.read(1 << 20))
            print(f"case {self.options.case}: reason={reason} powered_off={off} first_mib_blank={blank}")
            return 0 if reason and off and blank else 1
        if any(step == "failed" for _time, step, _detail in self.events):
            raise SystemExit(f"the deployment failed; console: {self.dir}/console.log")
        while time.monotonic() < limit:
            if self.ssh("true").returncode == 0:
                break
            time.sleep(0.5)
        else:
            raise SystemExit(f"no SSH within {self.options.limit} s; console: {self.dir}/console.log")
        self.mark("ssh")
        if self.options.verbose or self.options.check:
            result = self.ssh(
                "cloud-init status --wait --long; hostname; cat /run/from-the-seed; ip -br addr; cat /etc/machine-id; df -m / | tail -1;"
                " systemctl is-system-running --wait; systemctl --failed --no-legend; systemd-analyze;"
                " systemd-analyze critical-chain ssh.service --no-pager; systemd-analyze blame --no-pager | head -30;"
                " efibootmgr; free -m; cat /proc/cmdline /run/cloud-init/result.json; ls /etc/ssh /etc/systemd/network;"
                " journalctl -b -p warning --no-pager | tail -20",
                240,
            )
            print(result.stdout, result.stderr)
            self.mark("checked")
        return 0

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if not self.options.keep:
            shutil.rmtree(self.dir)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("image", type=pathlib.Path)
    parser.add_argument("--case", default="ok", choices=["ok", "checksum", "small", "two", "denied", "foreign"])
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--memory", type=int, default=1024)
    parser.add_argument("--cpu", default="Nehalem")
    parser.add_argument("--disk", default="nvme", choices=["nvme", "scsi", "virtio"])
    parser.add_argument("--arguments", default="console=ttyS0 loglevel=6")
    parser.add_argument("--keep")
    parser.add_argument("--limit", type=float, default=400)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if os.environ.get("DEPLOY_RAMDISK_INSIDE") != "1":
        # A namespace without a name lives as long as its last process: nothing is left to remove.
        environment = {**os.environ, "DEPLOY_RAMDISK_INSIDE": "1"}
        return subprocess.run(
            ["unshare", "--net", "--", sys.executable, *sys.argv], env=environment, check=False
        ).returncode
    bench = Bench(options)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that what was started is stopped
    try:
        bench.prepare()
        bench.power_on()
        return bench.deploy()
    finally:
        bench.close()


if __name__ == "__main__":
    sys.exit(main())
