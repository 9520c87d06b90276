# Settings of the boot service: one JSON file, mode 0600 (the registry URL may hold a password and the session key is a secret).
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import ipaddress
import json
import os
import stat
from dataclasses import dataclass, fields

from ..core.errors import InvalidInput

_THING = "boot service settings"


@dataclass(frozen=True)
class Settings:
    """What one boot service needs to know. Paths are absolute; URLs have no slash at the end; times are seconds.

    `api_url` and `image_url` are what the *nodes* use. `dnsmasq_pid_file`, `dnsmasq_log`, `nginx_log` and `reservation_dir` may be
    None: then that part (reservations, log events) is off, and the controller's waits for those steps will end at their deadline.
    """

    registry: str
    session_key: str
    api_url: str
    image_url: str
    provision_networks: tuple
    listen: str = "127.0.0.1"
    port: int = 8000
    threads: int = 8
    session_ttl_s: int = 7200
    kernel_arguments: str = "console=ttyS0,115200"
    reservation_dir: str | None = None
    dnsmasq_pid_file: str | None = None
    dnsmasq_log: str | None = None
    nginx_log: str | None = None
    state_dir: str | None = None
    interface: str | None = None
    poll_s: float = 1.0

    def __repr__(self):
        shown = ", ".join(
            f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name not in ("registry", "session_key")
        )
        return f"Settings({shown})"


def from_dict(data):
    """Settings from a plain dict, every value checked; raises InvalidInput that names the key."""
    if not isinstance(data, dict):
        raise InvalidInput(
            "the file does not hold a JSON object", thing=_THING, next_step="run the boot_server role again"
        )
    known = {field.name: field for field in fields(Settings)}
    for key in data:
        if key not in known:
            raise InvalidInput(f"unknown key {key}", thing=_THING, wanted=", ".join(sorted(known)), seen=key)
    for key in ("registry", "session_key", "api_url", "image_url", "provision_networks"):
        if not data.get(key):
            raise InvalidInput(
                f"{key} is missing",
                thing=_THING,
                wanted=f"a value for {key}",
                next_step="run the boot_server role again",
            )
    if len(data["session_key"]) < 32:
        raise InvalidInput(
            "session_key is too short",
            thing=_THING,
            wanted="at least 32 random characters",
            seen=f"{len(data['session_key'])} characters",
        )
    values = dict(data)
    for key in ("api_url", "image_url"):
        if not values[key].startswith(("http://", "https://")):
            raise InvalidInput(f"{key} is no HTTP URL", thing=_THING, wanted="http://ADDRESS:PORT...", seen=values[key])
        values[key] = values[key].rstrip("/")
    try:
        values["provision_networks"] = tuple(ipaddress.ip_network(net) for net in values["provision_networks"])
    except ValueError as error:
        raise InvalidInput(
            "provision_networks holds something that is no network",
            thing=_THING,
            wanted="for example 10.77.1.0/24",
            seen=str(error),
        )
    for key in ("port", "threads", "session_ttl_s"):
        if key in values and (not isinstance(values[key], int) or isinstance(values[key], bool) or values[key] < 1):
            raise InvalidInput(
                f"{key} must be a whole number above 0", thing=_THING, wanted="a whole number above 0", seen=values[key]
            )
    if values.get("reservation_dir") and not values.get("state_dir"):
        raise InvalidInput(
            "reservation_dir needs state_dir",
            thing=_THING,
            wanted="state_dir on the same file system",
            seen="no state_dir",
        )
    if "\n" in values.get("kernel_arguments", ""):
        raise InvalidInput("kernel_arguments must be one line", thing=_THING, wanted="one line", seen="several lines")
    return Settings(**values)


def load(path):
    """Settings from a file; refuses a file that others can read."""
    try:
        with open(path, encoding="utf-8") as handle:
            mode = stat.S_IMODE(os.fstat(handle.fileno()).st_mode)
            text = handle.read()
    except OSError as error:
        raise InvalidInput(
            "cannot be read",
            thing=f"settings file {path}",
            seen=error.strerror,
            next_step="run the boot_server role again",
        )
    if mode & 0o077:
        raise InvalidInput(
            "can be read by others although it holds secrets",
            thing=f"settings file {path}",
            wanted="mode 0600",
            seen=f"mode {mode:04o}",
            next_step=f"chmod 0600 {path}",
        )
    try:
        return from_dict(json.loads(text))
    except ValueError as error:
        raise InvalidInput(
            "is no valid JSON",
            thing=f"settings file {path}",
            seen=str(error),
            next_step="run the boot_server role again",
        )
