# The background work of the boot service: reservations follow the registry, log lines become boot events.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import functools
import json
import logging
import os
import threading
import time

from ..core.errors import BaremetalError
from . import reservations, timeline
from .addresses import same_address

_log = logging.getLogger("aicluster.boot")
ACTOR = "boot-service"
MOST_BYTES = 4 << 20
# Errors of a registry that is away or busy: what was to be recorded is recorded when it has come back.
AWAY = ("unreachable", "conflict")
# What a round needs of a node: it asks every second, and facts are many kilobytes a node.
COLUMNS = ("serial", "name", "attempt", "provision_mac", "provision_ip")


class LogTail:
    """Lines appended to a file since the last call; survives rotation and a restart of this service (offset kept in `state_file`).

    A line counts as taken when its work is done: one on which it failed, or in which this service was killed, comes again.
    """

    def __init__(self, path, state_file=None):
        self.path, self.state_file = path, state_file
        self._again = False  # the next lines may have been taken before
        self._begun = False
        self._inode, self._offset = self._load()

    def _load(self):
        try:
            with open(self.state_file, encoding="utf-8") as handle:
                inode, offset = json.load(handle)
            self._again = True
            return inode, offset
        except (OSError, TypeError, ValueError):
            pass
        # A first start reports what happens from now on, not the history of an older service.
        try:
            found = os.stat(self.path)
            return found.st_ino, found.st_size
        except OSError:
            return None, 0

    def _save(self):
        if self.state_file:
            temporary = self.state_file + ".new"
            with open(temporary, "w", encoding="utf-8") as handle:
                json.dump([self._inode, self._offset], handle)
            os.replace(temporary, self.state_file)

    def each(self, take):
        """Call `take(line, again)` for each new line. `again`: it may have been given before."""
        if not self._begun:
            self._save()  # a service that is killed over its first line must not take that line for history
            self._begun = True
        if self._inode is not None and self._inode_of(self.path) not in (None, self._inode):
            rotated = f"{self.path}.1"
            if self._inode_of(rotated) == self._inode:
                while self._read(rotated, take):
                    pass
        self._read(self.path, take)

    @staticmethod
    def _inode_of(path):
        try:
            return os.stat(path).st_ino
        except OSError:
            return None

    def _read(self, path, take):
        """Whether there was anything new."""
        try:
            with open(path, "rb") as handle:
                found = os.fstat(handle.fileno())
                if found.st_ino != self._inode or found.st_size < self._offset:
                    self._inode, self._offset = found.st_ino, 0
                if found.st_size == self._offset:
                    return False
                handle.seek(self._offset)
                data = handle.read(MOST_BYTES)
        except OSError:
            return False
        lines = data.split(b"\n")
        rest = lines.pop()
        if not lines and len(data) < MOST_BYTES:
            return False
        begun = self._offset
        try:
            for line in lines:
                take(line.decode("utf-8", "replace"), self._again)
                self._offset += len(line) + 1
        except BaseException:
            self._again = True
            raise
        finally:
            if not lines:
                self._offset += len(rest)  # no line of any log of ours is so long
            if self._offset != begun:
                self._save()
        self._again = False
        return True


class Watcher:
    """One thread; `round` is one pass and is called by tests without the thread."""

    def __init__(self, registry, settings):
        self._registry, self._settings = registry, settings
        self._stop = threading.Event()
        self._thread = None
        self._nodes = []
        self._reserved = set()
        self._dnsmasq = timeline.DnsmasqReader()
        self._read_last = (None, None)
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
                    self._reserved.add(key)
        self._reserved = current

    def read_logs(self):
        for tail, take in ((self._dnsmasq_tail, self._dnsmasq_line), (self._nginx_tail, self._nginx_line)):
            if tail:
                tail.each(functools.partial(self._line, take))

    @staticmethod
    def _line(take, line, again):
        """A line that the registry was not there for comes again; one that it does not want must not keep all others back."""
        try:
            take(line, again)
        except Exception as error:
            if isinstance(error, BaremetalError) and error.code in AWAY:
                raise
            _log.warning("not recorded: %s (%s)", line[:300], error)

    def _dnsmasq_line(self, line, again):
        if not again or self._read_last[0] != line:  # the reader forgets a request with its answer
            self._read_last = (line, self._dnsmasq.feed(line))
        entry = self._read_last[1]
        if entry and entry["kind"] == "dhcp":
            node = self._find(mac=entry["mac"])
            if node:
                self._event(node, "dhcp", entry["detail"], "dnsmasq", again=again)

    def _nginx_line(self, line, again):
        entry = timeline.read_nginx(line)
        node = entry and self._find(address=entry["address"])
        if not node or entry["method"] != "GET":
            return
        if entry["path"].endswith("/vmlinuz") and entry["status"] == 200:
            self._event(node, "kernel", entry["path"], "nginx", entry["time"], again)
        elif entry["path"].endswith("/disk.raw"):
            detail = {key: entry[key] for key in ("path", "status", "bytes", "complete")}
            self._event(node, "served", detail, "nginx", entry["time"], again)

    def _find(self, mac=None, address=None):
        for node in self._nodes:
            if (mac and str(node.get("provision_mac") or "").lower() == mac) or (
                address and same_address(node.get("provision_ip"), address)
            ):
                return node
        return None

    def _event(self, node, step, detail, source, when=None, again=False):
        if again and self._has(node, step, detail, source):
            return
        # Log line and this clock are of one machine; the registry counts the age back from its own.
        age = None if when is None else max(0.0, time.time() - when)
        self._registry.boot_event(node["serial"], node.get("attempt"), step, detail, source, age_s=age)
        _log.info("%s: %s %s", node["name"], step, detail)

    def _has(self, node, step, detail, source):
        """Whether the boot that is under way has such an event already. Of words only the first is compared: dnsmasq told the rest in earlier lines."""

        def key(row_step, row_detail, row_source):
            words = row_detail.split(" ", 1)[0] if isinstance(row_detail, str) else row_detail
            return row_step, words, row_source

        rows = timeline.Progress(self._registry.boot_events(node["serial"], node.get("attempt"))).rows
        return any(key(row["step"], row["detail"], row["source"]) == key(step, detail, source) for row in rows)
