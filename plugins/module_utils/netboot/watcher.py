# The background work of the boot service: reservations follow the registry, log lines become boot events.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import logging
import os
import threading
import time

from . import reservations, timeline
from .addresses import same_address

_log = logging.getLogger("aicluster.boot")
ACTOR = "boot-service"
# What a round needs of a node: it asks every second, and facts are many kilobytes a node.
COLUMNS = ("serial", "name", "attempt", "provision_mac", "provision_ip")


class LogTail:
    """Lines appended to a file since the last call; survives rotation and a restart of this service (offset kept in `state_file`)."""

    def __init__(self, path, state_file=None):
        self.path, self.state_file = path, state_file
        self._inode, self._offset, self._rest = self._load()

    def _load(self):
        try:
            with open(self.state_file, encoding="utf-8") as handle:
                inode, offset = json.load(handle)
            return inode, offset, b""
        except (OSError, TypeError, ValueError):
            pass
        # A first start reports what happens from now on, not the history of an older service.
        try:
            found = os.stat(self.path)
            return found.st_ino, found.st_size, b""
        except OSError:
            return None, 0, b""

    def _save(self):
        if self.state_file:
            temporary = self.state_file + ".new"
            with open(temporary, "w", encoding="utf-8") as handle:
                json.dump([self._inode, self._offset - len(self._rest)], handle)
            os.replace(temporary, self.state_file)

    def lines(self):
        try:
            with open(self.path, "rb") as handle:
                found = os.fstat(handle.fileno())
                if found.st_ino != self._inode or found.st_size < self._offset:
                    self._inode, self._offset, self._rest = found.st_ino, 0, b""
                if found.st_size == self._offset:
                    return []
                handle.seek(self._offset)
                data = handle.read(4 << 20)
        except OSError:
            return []
        self._offset += len(data)
        parts = (self._rest + data).split(b"\n")
        self._rest = parts.pop()
        self._save()
        return [part.decode("utf-8", "replace") for part in parts]


class Watcher:
    """One thread; `round` is one pass and is called by tests without the thread."""

    def __init__(self, registry, settings):
        self._registry, self._settings = registry, settings
        self._stop = threading.Event()
        self._thread = None
        self._nodes = []
        self._reserved = set()
        self._dnsmasq = timeline.DnsmasqReader()
        state = settings.state_dir
        self._dnsmasq_tail = settings.dnsmasq_log and LogTail(
            settings.dnsmasq_log, state and os.path.join(state, "dnsmasq.offset")
        )
        self._nginx_tail = settings.nginx_log and LogTail(
            settings.nginx_log, state and os.path.join(state, "nginx.offset")
        )

    def start(self):
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        if self._thread:
            self._thread.join(timeout=10)

    def _run(self):
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                self.round()
            except Exception:  # whatever it was, the next round starts from the registry again
                _log.exception("watcher: this round failed, the next one tries again")
            self._stop.wait(max(0.05, self._settings.poll_s - (time.monotonic() - started)))

    def is_deploying(self, mac):
        """Is this the provisioning MAC of a node that is being deployed, as of the last round?"""
        return mac is not None and self._find(mac=mac) is not None

    def round(self):
        self._nodes = self._registry.nodes(state="deploying", only=COLUMNS)
        self.keep_reservations()
        self.read_logs()

    def keep_reservations(self):
        directory = self._settings.reservation_dir
        if not directory:
            return
        changes = reservations.plan(reservations.observe(directory), reservations.wanted(self._nodes))
        if changes:
            if reservations.apply(directory, changes, self._settings.state_dir) and not reservations.tell_dnsmasq(
                self._settings.dnsmasq_pid_file
            ):
                _log.warning(
                    "reservations changed, but dnsmasq does not run (pid file %s)", self._settings.dnsmasq_pid_file
                )
            _log.info("reservations: %s", changes.summary().replace("\n", " "))
        current = set()
        for node in self._nodes:
            if node.get("provision_mac") and node.get("provision_ip"):
                key = (node["name"], node.get("attempt"))
                current.add(key)
                if key not in self._reserved:
                    self._event(node, "reserved", f"{node['provision_ip']} for {node['provision_mac']}", "boot-service")
        self._reserved = current

    def read_logs(self):
        if self._dnsmasq_tail:
            for line in self._dnsmasq_tail.lines():
                entry = self._dnsmasq.feed(line)
                if entry and entry["kind"] == "dhcp":
                    node = self._find(mac=entry["mac"])
                    if node:
                        self._event(node, "dhcp", entry["detail"], "dnsmasq")
        if self._nginx_tail:
            for line in self._nginx_tail.lines():
                entry = timeline.read_nginx(line)
                node = entry and self._find(address=entry["address"])
                if not node or entry["method"] != "GET":
                    continue
                if entry["path"].endswith("/vmlinuz") and entry["status"] == 200:
                    self._event(node, "kernel", entry["path"], "nginx", entry["time"])
                elif entry["path"].endswith("/disk.raw"):
                    detail = {key: entry[key] for key in ("path", "status", "bytes", "complete")}
                    self._event(node, "served", detail, "nginx", entry["time"])

    def _find(self, mac=None, address=None):
        for node in self._nodes:
            if (mac and str(node.get("provision_mac") or "").lower() == mac) or (
                address and same_address(node.get("provision_ip"), address)
            ):
                return node
        return None

    def _event(self, node, step, detail, source, when=None):
        # Log line and this clock are of one machine; the registry counts the age back from its own.
        age = None if when is None else max(0.0, time.time() - when)
        self._registry.boot_event(node["serial"], node.get("attempt"), step, detail, source, age_s=age)
        _log.info("%s: %s %s", node["name"], step, detail)
