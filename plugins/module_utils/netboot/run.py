# Starts the boot service: settings file, registry, background work, WSGI server. The launcher passes in how to open a registry.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import logging
import signal
import sys
import time

from ..core.errors import BaremetalError, Unreachable, Unsupported
from . import advertise
from . import settings as settings_file
from .service import create_app
from .watcher import Watcher

_log = logging.getLogger("aicluster.boot")
_REGISTRY_WAIT_S = 60


def _open(open_registry, url, wait_s):
    """The registry may come up after us (one machine boots everything): try until the deadline, then end with the reason."""
    end = time.monotonic() + wait_s
    while True:
        try:
            return open_registry(url)
        except (Unreachable, Unsupported) as error:
            if time.monotonic() >= end:
                raise
            _log.warning("the registry cannot be opened yet: %s", error)
            time.sleep(2)


def main(open_registry, argv=None):
    """Run until SIGTERM. Returns the exit status: 0 ended on request, 2 could not start."""
    parser = argparse.ArgumentParser(prog="boot-service", description="Boot service of aicluster.baremetal")
    parser.add_argument("--settings", required=True, help="settings file, JSON, mode 0600")
    parser.add_argument("--check", action="store_true", help="check the settings and the registry, then end")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(message)s")
    try:
        settings = settings_file.load(options.settings)
        registry = _open(open_registry, settings.registry, 0 if options.check else _REGISTRY_WAIT_S)
    except BaremetalError as error:
        sys.stderr.write(f"boot-service: {error}\n")
        return 2
    if options.check:
        sys.stdout.write(f"boot-service: {settings!r} is good\n")
        return 0
    try:
        import waitress
    except ImportError as error:
        sys.stderr.write(f"boot-service: {error}: install Flask and waitress for {sys.executable}\n")
        return 2
    watcher = Watcher(registry, settings)

    def stop(_signal, _frame):
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    try:
        server = waitress.create_server(
            create_app(registry, settings), host=settings.listen, port=settings.port, threads=settings.threads
        )
    except OSError as error:
        sys.stderr.write(f"boot-service: cannot listen on {settings.listen}:{settings.port}: {error.strerror}\n")
        return 2
    watcher.start()
    advertiser = settings.interface and advertise.start(settings.interface, watcher.is_deploying)
    _log.info("listening on %s:%s, %r", settings.listen, settings.port, settings)
    try:
        server.run()
    except SystemExit:
        pass
    finally:
        if advertiser:
            advertiser.stop()
        watcher.stop()
        server.close()
    return 0
