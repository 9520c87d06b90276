# Command line of the BMC simulator: python -m bmc_simulator --config <virtual_lab_dir>/lab.json, or python -m bmc_simulator fleet ...
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import argparse
import asyncio
import ctypes
import logging
import os
import resource
import signal
import sys
from typing import Any

from .schema import SchemaError, load_lab
from .server import Simulator

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Ask the kernel for SIGTERM when the parent ends, and end now if it already has."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(0)


async def run(simulator: Any, what: str) -> None:
    """Start, say that it is ready, and go on until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await simulator.start()
    print(f"ready: {what}, control socket {simulator.control_path}", flush=True)
    await stop.wait()
    await simulator.close()


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["fleet"]:
        from .fleet import main as fleet_main

        return fleet_main(argv[1:])
    parser = argparse.ArgumentParser(prog="bmc_simulator", description="BMCs (Redfish, IPMI) of a virtual lab.")
    parser.add_argument("path", nargs="?", metavar="LAB.JSON", help="the description of the lab")
    parser.add_argument("--config", metavar="LAB.JSON", help="the same, as an option")
    parser.add_argument("--check", action="store_true", help="check the description and end")
    parser.add_argument(
        "--keep-nodes",
        action="store_true",
        help="leave the machines running when the simulator is stopped; the next one takes them over",
    )
    parser.add_argument("--die-with", type=int, metavar="PID", help="end when this process, the parent, ends")
    options = parser.parse_args(argv)
    path = options.config or options.path
    if not path:
        parser.error("which lab? Give the path of its lab.json")
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    if options.die_with:
        die_with(options.die_with)
    try:
        lab = load_lab(path)
    except SchemaError as error:
        print(
            f"{path} does not describe a lab:\n" + "\n".join(f"  {problem}" for problem in error.problems),
            file=sys.stderr,
        )
        return 2
    if options.check:
        print(f"{path}: {len(lab['nodes'])} nodes")
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        asyncio.run(run(Simulator(lab, options.keep_nodes), f"{len(lab['nodes'])} BMCs"))
    except OSError as error:
        print(f"bmc_simulator: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
