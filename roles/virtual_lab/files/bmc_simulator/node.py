# One simulated server as its BMC knows it: power, boot, BIOS, media, accounts, sessions, tasks, logs, firmware.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The one state behind every front (Redfish, IPMI, control socket). `bmc-state.json` holds what survives a restart."""

from __future__ import annotations

import asyncio
import collections
import functools
import hmac
import json
import os
import pathlib
import re
import secrets
import time
import traceback
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import firmware
from .behaviour import Behaviour
from .drivers import Boot, Driver, DriverError, make_driver
from .journal import Journal, now_text
from .profiles import Profile
from .profiles import load as load_profile

# When the BMCs that this process has were started: with it.
STARTED = now_text()
BIOS_DEFAULTS: dict[str, Any] = {
    "BootMode": "Uefi",
    "HyperThreading": "Enabled",
    "SriovGlobalEnable": "Enabled",
    "IommuSupport": "Enabled",
    "NumaNodesPerSocket": "1",
    "PowerProfile": "Performance",
    "SerialConsole": "Enabled",
    "NetworkStack": "Enabled",
    "AcsControl": "Enabled",
    "FanOffsetPercent": 0,
    "AssetLabel": "",
}
BIOS_CHOICES: dict[str, tuple[str, ...]] = {
    "BootMode": ("Uefi", "Legacy"),
    "NumaNodesPerSocket": ("1", "2", "4"),
    "PowerProfile": ("Performance", "Balanced", "Efficiency"),
    **dict.fromkeys(
        ("HyperThreading", "SriovGlobalEnable", "IommuSupport", "SerialConsole", "NetworkStack", "AcsControl"),
        ("Enabled", "Disabled"),
    ),
}
CONFIG_KEYS = (
    "behaviour",
    "bmc",
    "components",
    "cpus",
    "disks",
    "driver",
    "fault",
    "firmware",
    "gpu_profile",
    "memory_mib",
    "power",
    "profile",
    "rack",
    "slot",
)
PRIVILEGES = {
    "Administrator": ("Login", "ConfigureManager", "ConfigureUsers", "ConfigureComponents", "ConfigureSelf"),
    "Operator": ("Login", "ConfigureComponents", "ConfigureSelf"),
    "ReadOnly": ("Login", "ConfigureSelf"),
}


@dataclass(slots=True)
class Account:
    """A BMC account. The password is kept in clear because IPMI 2.0 authentication needs it."""

    id: str
    username: str
    password: str
    role: str = "Administrator"
    enabled: bool = True
    change_required: bool = False
    failures: int = 0
    locked_until: float = 0.0

    @property
    def locked(self) -> bool:
        return self.locked_until > time.time()


@dataclass(slots=True)
class Session:
    id: str
    token: str
    account: str
    client: str
    created: str = field(default_factory=now_text)
    used: float = field(default_factory=time.monotonic)
    requests: int = 0


@dataclass(slots=True)
class Task:
    """A piece of work of the BMC that outlives its request."""

    id: str
    name: str
    state: str = "Running"
    percent: int = 0
    started: str = field(default_factory=now_text)
    born: float = field(default_factory=time.monotonic)
    ended: str | None = None
    messages: list[tuple[str, tuple]] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.state in ("Completed", "Exception", "Cancelled")


class Node:
    """One server. Everything runs in the simulator's event loop; nothing here blocks.

    State that many BMCs of a fleet never need is made when it is first touched. A lab whose description says `volatile`
    keeps nothing in files.
    """

    health = "OK"
    # what a plain push has instead of parameters
    push_targets: tuple[str, ...] = ()
    push_apply_time = "Immediate"

    def __init__(self, config: dict[str, Any], lab: dict[str, Any]):
        self.config, self.lab = config, lab
        self.name: str = config["name"]
        self.volatile = bool(lab.get("volatile"))
        if self.volatile:
            self.directory: pathlib.Path = lab["scratch"]
        else:
            self.directory = pathlib.Path(lab["dir"]) / "nodes" / self.name
            self.directory.mkdir(parents=True, exist_ok=True)
        self.behaviour = Behaviour(config["behaviour"], checked=self.volatile)
        self.requests = Journal(None if self.volatile else self.directory / "requests.jsonl")
        self.events = Journal(None if self.volatile else self.directory / "events.jsonl")
        self.changed_at = time.time()
        self.profile: Profile | None = load_profile(config["profile"])
        self.boot_order: list[str] = []
        self.bios_pending: dict[str, Any] = {}
        self.firmware_pending: dict[str, str] = {}
        self.media: dict[str, Any] | None = None
        self.stored_power = "On" if config["power"] == "on" else "Off"
        self.transition: str | None = None
        self.away_until = self.warm_at = 0.0
        self.bmc_restarted = False
        self.bmc_started = STARTED
        self.bios_job: Task | None = None
        self.update_ended = -1e9
        self.on_reachability: Callable[[], Awaitable[None]] | None = None
        # the listener's: the certificate it shows (PEM), and how another one is put in its place (key and certificate)
        self.certificate: Callable[[], str | None] = lambda: None
        self.on_certificate: Callable[[bytes], Awaitable[None]] | None = None
        self.csr_key: Any = None
        self._restart_after_off = False
        if not self.volatile:
            self._load()
        elif self.behaviour.password_change_required:
            self.require_password_change()

    # ---- state that is made when it is first touched -------------------------------------------

    @functools.cached_property
    def driver(self) -> Driver:
        return make_driver(self.config["driver"], self, self.lab)

    @functools.cached_property
    def stats(self) -> collections.Counter[str]:
        return collections.Counter()

    @functools.cached_property
    def counters(self) -> collections.Counter[str]:
        return collections.Counter()

    @functools.cached_property
    def sessions(self) -> dict[str, Session]:
        return {}

    @functools.cached_property
    def tasks(self) -> dict[str, Task]:
        return {}

    @functools.cached_property
    def system_log(self) -> collections.deque[dict]:
        return collections.deque(maxlen=1000)

    @functools.cached_property
    def manager_log(self) -> collections.deque[dict]:
        return collections.deque(maxlen=1000)

    @functools.cached_property
    def accounts(self) -> dict[str, Account]:
        slots = self.behaviour.account_slots
        found = {
            str(number): Account(str(number), entry["username"], entry["password"], entry["role"])
            for number, entry in enumerate(self.config["bmc"]["accounts"], 2 if slots else 1)
        }
        for number in map(str, range(1, slots + 1)):
            found.setdefault(number, Account(number, "", "", "ReadOnly", enabled=False))
        return dict(sorted(found.items(), key=lambda item: int(item[0])))

    @functools.cached_property
    def override(self) -> dict[str, Any]:
        mode = "UEFI" if self.config["firmware"] == "uefi" else "Legacy"
        return {"target": "None", "enabled": "Disabled", "mode": mode, "uri": None}

    @functools.cached_property
    def bios(self) -> dict[str, Any]:
        """The live BIOS attributes; replaced as a whole, never changed in place (BMCs of a fleet share it)."""
        if self.profile and self.profile.bios_attributes is not None:
            return self.profile.bios_attributes
        return BIOS_DEFAULTS if self.config["firmware"] == "uefi" else {**BIOS_DEFAULTS, "BootMode": "Legacy"}

    @property
    def bios_defaults(self) -> dict[str, Any]:
        return (self.profile and self.profile.bios_attributes) or BIOS_DEFAULTS

    @property
    def bios_choices(self) -> Mapping[str, Sequence[Any]]:
        return self.profile.bios_choices if self.profile and self.profile.bios_attributes else BIOS_CHOICES

    @functools.cached_property
    def firmware(self) -> dict[str, str]:
        """Running versions by component; replaced as a whole."""
        return {name: component.version for name, component in self.components.items()}

    @functools.cached_property
    def components(self) -> dict[str, firmware.Component]:
        """What the firmware inventory lists."""
        return firmware.components(self.config["components"], self.profile.components if self.profile else None)

    @functools.cached_property
    def _children(self) -> dict[int, Node]:
        return {}

    @property
    def number(self) -> int:
        """Which of the servers of its BMC this is, from 1."""
        return self.config.get("system", 1)

    def child(self, number: int) -> Node:
        """Another server of the same BMC (profiles with several systems): its accounts, sessions and switches are these."""
        if number not in self._children:
            config = {key: self.config[key] for key in CONFIG_KEYS}
            config.update(
                name=f"{self.name}-{number}",
                serial=f"{self.config['serial']}-{number}",
                uuid=str(uuid.uuid5(uuid.UUID(self.config["uuid"]), f"system {number}")),
                nics=[{**nic, "mac": f"{nic['mac'][:9]}{number:02x}{nic['mac'][11:]}"} for nic in self.config["nics"]],
                system=number,
            )
            child = Node(config, self.lab)
            child.behaviour, child.accounts, child.requests = self.behaviour, self.accounts, self.requests
            child.components, child.firmware, child._jobs = self.components, self.firmware, self._jobs
            self._children[number] = child
        return self._children[number]

    def component_named(self, identity: str) -> str | None:
        """The component with this id in the firmware inventory."""
        return next((name for name, row in self.components.items() if (row.id or name) == identity), None)

    @functools.cached_property
    def images(self) -> list[dict[str, Any]]:
        """Every image that arrived whole: component, version, method, bytes, and what became of it."""
        return []

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        return {
            "asset_tag": "",
            "indicator": False,
            "hostname": self.name + "-bmc",
            "power_restore": "AlwaysOff",
            "chassis_asset_tag": "",
            "lockout_threshold": 0,
            "lockout_duration": 300,
            "lockout_reset": 300,
            "min_password": 8,
            "session_timeout": None,
            "ntp_enabled": False,
            "ntp_servers": [],
            "ipmi_enabled": True,
            "secure_boot": False,
            "secure_boot_now": False,
        }

    @functools.cached_property
    def volumes(self) -> dict[str, dict[str, Any]]:
        return {}

    @functools.cached_property
    def subscriptions(self) -> dict[str, dict[str, Any]]:
        """Event destinations. They are kept and shown; no event is ever sent."""
        return {}

    @functools.cached_property
    def _power_lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    @functools.cached_property
    def _jobs(self) -> set[asyncio.Task]:
        return set()

    # ---- what survives a restart ---------------------------------------------------------------

    @property
    def _state_file(self) -> pathlib.Path:
        return self.directory / "bmc-state.json"

    def _load(self) -> None:
        try:
            stored = json.loads(self._state_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            stored = None
        if stored:
            self.accounts = {entry["id"]: Account(**entry) for entry in stored["accounts"]}
            self.override, self.boot_order = stored["override"], stored["boot_order"]
            self.bios, self.bios_pending = stored["bios"], stored["bios_pending"]
            # a component that the description has gained since is there, one that it has lost is not
            self.firmware = {name: stored["firmware"].get(name, version) for name, version in self.firmware.items()}
            self.firmware_pending = {
                name: version for name, version in stored["firmware_pending"].items() if name in self.firmware
            }
            self.settings.update(stored["settings"])
            self.volumes, self.subscriptions = stored.get("volumes", {}), stored.get("subscriptions", {})
            self.media, self.stored_power = stored["media"], stored["power"]
            self.counters.update(stored["counters"])
        if self.behaviour.password_change_required and not stored:
            self.require_password_change()

    @property
    def busy(self) -> bool:
        """Whether work goes on beside the requests."""
        return bool(self.__dict__.get("_jobs"))

    def require_password_change(self) -> None:
        for account in self.accounts.values():
            account.change_required = True

    def save(self, power: str | None = None) -> None:
        """Write the state file as a whole; only root may read it, it holds passwords."""
        self.changed_at = time.time()
        if self.volatile:
            return
        state = {
            "accounts": [
                {
                    key: getattr(account, key)
                    for key in ("id", "username", "password", "role", "enabled", "change_required")
                }
                for account in self.accounts.values()
            ],
            "override": self.override,
            "boot_order": self.boot_order,
            "bios": self.bios,
            "bios_pending": self.bios_pending,
            "firmware": self.firmware,
            "firmware_pending": self.firmware_pending,
            "settings": self.settings,
            "volumes": self.volumes,
            "subscriptions": self.subscriptions,
            "media": self.media,
            "power": power or ("On" if self.driver.running else "Off"),
            "counters": dict(self.counters),
        }
        partial = self._state_file.with_suffix(".new")
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as handle:
            json.dump(state, handle)
        os.replace(partial, self._state_file)

    def next_id(self, kind: str) -> str:
        self.counters[kind] += 1
        return str(self.counters[kind])

    def spawn(self, work: Awaitable[Any], what: str) -> asyncio.Task:
        """Run work beside the requests; a failure becomes an event instead of a lost exception."""

        async def guarded() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except DriverError as error:
                self.event("error", what=what, detail=str(error))
            except Exception as error:
                traceback.print_exc()
                self.event("error", what=what, detail=f"{type(error).__name__}: {error}")

        task = asyncio.get_running_loop().create_task(guarded())
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
        return task

    @property
    def vanished(self) -> set[str]:
        """Names that are not there until the BMC is reset."""
        return set() if self.bmc_restarted else set(self.behaviour.vanished)

    def shows(self, task: Task) -> bool:
        """Whether a task can be found: not yet, or not any more, if the behaviour has it so."""
        if time.monotonic() - task.born < self.behaviour.task_late_s:
            return False
        return not (task.over and self.behaviour.task_monitor_gone)

    # ---- logs ----------------------------------------------------------------------------------

    def event(self, event: str, **detail: Any) -> None:
        """A power or boot event: into events.jsonl and the system's log."""
        self.events.append(event=event, **detail)
        text = event + "".join(f" {key}={value}" for key, value in detail.items() if value is not None)
        self.log(self.system_log, "system_log", text, "Critical" if event == "error" else "OK")

    def log(self, log: collections.deque[dict], kind: str, text: str, severity: str = "OK") -> None:
        log.append({"id": self.next_id(kind), "time": now_text(), "text": text, "severity": severity})

    # ---- power ---------------------------------------------------------------------------------

    @property
    def power(self) -> str:
        """PowerState as the BMC shows it."""
        if self.transition and self.behaviour.intermediate_power_states:
            return self.transition
        return "On" if self.driver.running else "Off"

    async def attach(self) -> None:
        """Take over what an earlier simulator left running; start a node that lab.json has powered on."""
        try:
            attached = await self.driver.attach()
        except DriverError as error:
            # one machine that cannot be taken over must not keep the other BMCs from coming up
            self.event("error", what="attach", detail=str(error))
            return
        if attached:
            self.event("attached")
        elif self.stored_power == "On" and (self.driver.resumes or not self._state_file.exists()):
            await self._power_on()

    def request_reset(self, kind: str) -> None:
        """Accept a reset of one of the Redfish types; it follows after the power lag, the caller does not wait."""
        if "power" in self.behaviour.accept_and_do_nothing:
            return
        self.spawn(self._reset(kind), f"reset {kind}")

    async def _reset(self, kind: str) -> None:
        if kind == "FullPowerCycle":
            self.cut_power("ac_cycle")
            return
        async with self._power_lock:
            running = self.driver.running
            if kind == "PushPowerButton":
                kind = "GracefulShutdown" if running else "On"
            turns_on = kind in ("On", "ForceOn") or (
                kind in ("PowerCycle", "ForceRestart", "GracefulRestart") and not running
            )
            if (kind in ("On", "ForceOn") and running) or (
                kind in ("ForceOff", "GracefulShutdown", "Nmi") and not running
            ):
                return
            if kind != "Nmi":
                self.transition = "PoweringOn" if turns_on else "PoweringOff"
                await asyncio.sleep(self.behaviour.power_lag_s)
            try:
                if turns_on:
                    await self._power_on()
                elif kind == "ForceOff":
                    await self._power_off("forced off by the BMC")
                elif kind == "PowerCycle":
                    await self._power_off("power cycle by the BMC")
                    self.transition = "PoweringOn"
                    await asyncio.sleep(self.behaviour.power_lag_s)
                    await self._power_on()
                elif kind == "ForceRestart":
                    self.event("reset", by="bmc")
                    await self.driver.reset()
                elif kind == "Nmi":
                    self.event("nmi", by="bmc")
                    await self.driver.interrupt()
                else:
                    self.event("power_button", wanted=kind)
                    self._restart_after_off = kind == "GracefulRestart"
                    if not self.behaviour.graceful_ignored:
                        await self.driver.shutdown()
            finally:
                self.transition = None

    async def _power_on(self) -> None:
        if self.driver.running:
            return
        self._restart_after_off = False
        self._apply_pending()
        first = self.boot()
        then = self._consume_boot()
        self.event("power_on", target=first.target, source=first.source, mode=first.mode)
        await self.driver.start(first, then)
        self.save()

    async def _power_off(self, reason: str) -> None:
        self._restart_after_off = False
        await self.driver.stop()
        self.event("power_off", reason=reason)
        self.save()

    async def machine_stopped(self, reason: str) -> None:
        """The driver says that the machine went off by itself (shut down from inside, or crashed)."""
        self.event("power_off", reason=reason)
        self.save()
        if self._restart_after_off:
            self._restart_after_off = False
            self.spawn(self._locked_power_on(), "graceful restart")

    async def _locked_power_on(self) -> None:
        async with self._power_lock:
            await asyncio.sleep(self.behaviour.power_lag_s)
            await self._power_on()

    async def machine_rebooted(self, reason: str) -> None:
        """The driver says that the machine was reset: the override was used, pending settings take effect."""
        used = self.boot()
        self._apply_pending()
        then = self._consume_boot()
        self.event("boot", target=used.target, source=used.source, reason=reason)
        if then != used:
            await self.driver.set_boot(then)
        self.save()

    async def machine_restarted(self) -> None:
        """The driver ended the machine for a reset that needs a new one (the caller holds the power lock)."""
        await self._power_on()

    async def crash(self) -> None:
        """Control socket: the machine dies, the BMC sees it as power lost."""
        async with self._power_lock:
            if self.driver.running:
                await self.driver.crash()
                await self.machine_stopped("crashed")

    # ---- boot override -------------------------------------------------------------------------

    def boot(self) -> Boot:
        """What the next boot will use."""
        if self.override["enabled"] == "Disabled" or self.override["target"] == "None":
            return Boot(mode=self.override["mode"])
        return Boot(
            self.override["target"], self.override["mode"], self.override["enabled"].lower(), self.override["uri"]
        )

    def _consume_boot(self) -> Boot:
        if self.override["enabled"] == "Once" and not self.behaviour.boot_once_sticks:
            self.override.update(target="None", enabled="Disabled", uri=None)
        return self.boot()

    def set_override(self, **values: Any) -> None:
        """Change target, enabled, mode, uri; a running machine uses it at its next reset."""
        if "boot" in self.behaviour.accept_and_do_nothing:
            return
        self.override.update(values)
        if self.override["target"] == "None":
            self.override["enabled"] = "Disabled"
        if self.behaviour.boot_once_sticks and self.override["enabled"] == "Once":
            self.override["enabled"] = "Continuous"
        self.event("boot_override", **{key: self.override[key] for key in ("target", "enabled", "mode")})
        self.save()
        if self.driver.running:
            self.spawn(self.driver.set_boot(self.boot()), "boot override")

    def _apply_pending(self) -> None:
        job = self.bios_job
        if job is not None and job.state == "New":
            job.state = "Running"

            async def finish() -> None:
                await asyncio.sleep(self.behaviour.bios_job_s)
                job.state, job.percent, job.ended = "Completed", 100, now_text()

            self.spawn(finish(), "BIOS job")
        elif self.behaviour.bios_job:
            # nobody made a job of them
            self.activate("host_reboot")
            return
        self.settings["secure_boot_now"] = self.settings["secure_boot"]
        if self.bios_pending:
            self.event("bios_applied", attributes=sorted(self.bios_pending))
            self.bios = {**self.bios, **self.bios_pending}
            self.bios_pending = {}
        self.activate("host_reboot")

    def activate(self, cause: str) -> None:
        """A reset of this kind happens: images that waited for it, or for a lesser one, run from now on."""
        for name in list(self.firmware_pending):
            if self.components[name].activation in firmware.COVERS[cause]:
                self.firmware = {**self.firmware, name: self.firmware_pending.pop(name)}
                self.event("firmware_activated", component=name, version=self.firmware[name])
                self.health = self.behaviour.health_after_update

    # ---- accounts and sessions -----------------------------------------------------------------

    def account_named(self, username: str) -> Account | None:
        return next((account for account in self.accounts.values() if account.username == username), None)

    def authenticate(self, username: str, password: str) -> Account | None:
        """The account if the credentials are right and it may log in; counts failures for the lockout."""
        account = self.account_named(username) if username else None
        if account is None or not account.enabled or account.locked:
            return None
        if not hmac.compare_digest(account.password.encode(), password.encode()):
            account.failures += 1
            own = self.behaviour.lockout_after
            threshold = own or self.settings["lockout_threshold"]
            if threshold and account.failures >= threshold:
                seconds = self.behaviour.lockout_s if own else self.settings["lockout_duration"]
                account.locked_until = time.time() + seconds
                account.failures = 0
            self.log(self.manager_log, "manager_log", f"login of {username} failed", "Warning")
            return None
        account.failures = 0
        return account

    def ipmi_user(self, operation: str, identity: str, value: str) -> int:
        """IPMI's commands that set a user's name, password, privilege and switch; returns a completion code (22.26 to 22.30)."""
        account = self.accounts.get(identity)
        if operation == "name":
            return self._ipmi_name(identity, account, value)
        if account is None:
            # switching off what is not there is what a client does that clears a slot
            return 0 if operation == "disable" else 0xCC
        if operation == "test":  # 0x80: the password differs
            return 0 if hmac.compare_digest(account.password.encode(), value.encode()) else 0x80
        if operation == "password" and len(value) < self.settings["min_password"]:
            return 0xCC
        if "account" in self.behaviour.accept_and_do_nothing:
            return 0
        if operation == "password":
            account.password, account.change_required = value, False
            self.drop_sessions(account.id)
            self.event("password_changed", username=account.username)
        elif operation == "role":
            account.role = value
        else:
            account.enabled = operation == "enable"
        self.save()
        return 0

    def _ipmi_name(self, identity: str, account: Account | None, name: str) -> int:
        """A slot that gets a name is an account, switched off and with a password that nobody knows; one that loses its name is none."""
        before = account.username if account else ""
        if name == before:
            return 0
        if name and (not re.fullmatch(r"[A-Za-z0-9._-]{1,16}", name) or self.account_named(name)):
            return 0xCC
        if "account" in self.behaviour.accept_and_do_nothing:
            return 0
        if account is None or not before:
            self.accounts[identity] = Account(identity, name, secrets.token_hex(8), "ReadOnly", enabled=False)
            self.event("account_created", username=name, role="ReadOnly")
        elif name:
            account.username = name
        else:
            if self.behaviour.account_slots:
                self.accounts[identity] = Account(identity, "", "", "ReadOnly", enabled=False)
            else:
                del self.accounts[identity]
            self.drop_sessions(identity)
            self.event("account_deleted", username=before)
        self.save()
        return 0

    @property
    def session_timeout(self) -> float:
        return self.settings["session_timeout"] or self.behaviour.session_idle_s

    def expire_sessions(self) -> None:
        oldest = time.monotonic() - self.session_timeout
        for token in [token for token, session in self.sessions.items() if session.used < oldest]:
            del self.sessions[token]

    @property
    def session_limit(self) -> int:
        return self.behaviour.session_limit or self.config["bmc"]["session_limit"]

    def open_session(self, account: Account, client: str) -> Session | None:
        """A new session, or None if the limit is reached."""
        self.expire_sessions()
        if len(self.sessions) >= self.session_limit or self.behaviour.sessions_taken:
            return None
        session = Session(self.next_id("session"), secrets.token_hex(16), account.id, client)
        self.sessions[session.token] = session
        self.stats["sessions_made"] += 1
        return session

    def session_of(self, token: str) -> Session | None:
        """The session of a token, counted as used."""
        self.expire_sessions()
        session = self.sessions.get(token)
        if session is None:
            return None
        limit = self.behaviour.session_expires_after
        if limit and session.requests >= limit:
            del self.sessions[token]
            return None
        session.used, session.requests = time.monotonic(), session.requests + 1
        return session

    def drop_sessions(self, account: str | None = None) -> None:
        for token in [token for token, session in self.sessions.items() if account in (None, session.account)]:
            del self.sessions[token]

    # ---- tasks, firmware, the BMC itself -------------------------------------------------------

    def task_identity(self) -> str:
        identity = self.next_id("task")
        return self.profile.task_id.format(int(identity)) if self.profile else identity

    def start_task(self, name: str, work: Callable[[Task], Awaitable[None]]) -> Task:
        """Run `work` as a task of the BMC; what it raises ends the task as Exception."""
        task = Task(self.task_identity(), name)
        self.tasks[task.id] = task
        while len(self.tasks) > 50:
            del self.tasks[next(iter(self.tasks))]

        async def run() -> None:
            try:
                await work(task)
                task.state = "Completed"
                task.messages.append(("Success", ()))
            except Exception as error:
                task.state = "Exception"
                task.messages.append(("GeneralError", (str(error),)))
                self.event("error", what=name, detail=str(error))
            task.percent, task.ended, self.update_ended = 100, now_text(), time.monotonic()
            self.save()

        self.spawn(run(), name)
        return task

    def stage_firmware(self, component: str, version: str) -> None:
        """A new image was written; it runs after the reset that its component needs."""
        if self.behaviour.update_without_effect:
            return
        if component not in self.firmware:
            raise ValueError(f"this server has no component {component}")
        self.event("firmware_written", component=component, version=version)
        self.firmware_pending[component] = version
        row = self.components[component]
        if row.activation == "immediate":
            self.activate("immediate")
        elif row.activation == "host_reboot" and not self.driver.running:
            # nothing uses it while the server is off
            self.activate("host_reboot")
        elif row.auto:
            {
                "bmc_reset": self.restart_bmc,
                "host_reboot": lambda: self.request_reset("ForceRestart"),
                "aux_cycle": lambda: self.cut_power("aux_cycle"),
                "ac_cycle": lambda: self.cut_power("ac_cycle"),
            }[row.activation]()

    def cut_power(self, cause: str) -> None:
        """Power goes away and comes back for the whole server, BMC included: `ac_cycle` or `aux_cycle`."""
        self.event(cause)

        async def cut() -> None:
            async with self._power_lock:
                was_on = self.driver.running
                if was_on:
                    await self._power_off(cause)
                self._apply_pending()
                self.activate(cause)
                self.restart_bmc(cause)
                policy = self.settings["power_restore"]
                if policy == "AlwaysOn" or (was_on and (policy == "LastState" or cause == "aux_cycle")):
                    await asyncio.sleep(self.behaviour.power_lag_s)
                    await self._power_on()

        self.spawn(cut(), cause)

    def restart_bmc(self, cause: str = "bmc_reset") -> None:
        """The BMC goes away for a while and forgets its sessions and tasks; the server behind it runs on."""
        self.event("bmc_reset")
        self.save()

        async def restart() -> None:
            # the answer to the request that asked for it still has to go out
            await asyncio.sleep(0.2)
            self.activate(cause)
            self.drop_sessions()
            self.away_until = time.monotonic() + self.behaviour.manager_reset_s
            await self.reachability()
            await asyncio.sleep(self.behaviour.manager_reset_s)
            for identity in [identity for identity, task in self.tasks.items() if task.over]:
                del self.tasks[identity]
            self.drop_sessions()  # also of whoever logged in while it was going down
            self.away_until, self.bmc_restarted, self.bmc_started = 0.0, True, now_text()
            self.warm_at = time.monotonic() + self.behaviour.warmup_s
            await self.reachability()

        self.spawn(restart(), "BMC reset")

    @property
    def reachable(self) -> str:
        """no, refuse or silent, as the behaviour `unreachable` has it."""
        return "refuse" if self.away_until > time.monotonic() else self.behaviour.unreachable

    async def reachability(self) -> None:
        """The listeners follow what has changed."""
        if self.on_reachability:
            await self.on_reachability()

    async def install_certificate(self, pem: bytes) -> None:
        if self.on_certificate:
            await self.on_certificate(pem)
        self.event("certificate_installed")

    # ---- reports -------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """For the control socket: everything but secrets."""
        return {
            "name": self.name,
            "serial": self.config["serial"],
            "driver": self.config["driver"],
            "power": self.power,
            "running": self.driver.running,
            "override": dict(self.override),
            "bios": self.bios,
            "bios_pending": self.bios_pending,
            "media": self.media,
            "firmware": self.firmware,
            "firmware_pending": self.firmware_pending,
            "accounts": [
                {
                    "id": account.id,
                    "username": account.username,
                    "role": account.role,
                    "enabled": account.enabled,
                    "locked": account.locked,
                    "change_required": account.change_required,
                }
                for account in self.accounts.values()
            ],
            "sessions": len(self.sessions),
            "others": {
                number: {"power": child.power, "running": child.driver.running, "serial": child.config["serial"]}
                for number, child in self.__dict__.get("_children", {}).items()
            },
            "profile": self.profile.name if self.profile else "default",
            "tasks": {task.id: task.state for task in self.tasks.values()},
            "settings": dict(self.settings),
            "boot_order": list(self.boot_order),
            "volumes": dict(self.volumes),
            "subscriptions": dict(self.subscriptions),
        }

    async def close(self, keep: bool) -> None:
        for job in list(self._jobs):
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        running = self.driver.running
        await self.driver.close(keep)
        self.save("On" if keep and running else None)
