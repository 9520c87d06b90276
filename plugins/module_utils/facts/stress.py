# Readers of the stress tools: stress-ng's YAML metrics, fio's and iperf3's JSON. Text in, typed facts out; no I/O.
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import json
import re
from typing import NamedTuple

from .values import Unreadable


class Stressor(NamedTuple):
    """One stressor's figures. Rates are bogus operations per second of real time: comparable only between equal nodes and versions."""

    name: str
    operations: int
    rate: float
    seconds: float


def read_stress_ng(text):
    """{stressor: Stressor} from stress-ng's `--yaml` file."""
    found, fields, in_metrics = {}, {}, False

    def keep():
        if "stressor" in fields:
            try:
                found[fields["stressor"]] = Stressor(
                    fields["stressor"],
                    int(fields["bogo-ops"]),
                    float(fields["bogo-ops-per-second-real-time"]),
                    float(fields["wall-clock-time"]),
                )
            except (KeyError, ValueError) as error:
                raise Unreadable(f"stress-ng: incomplete figures of stressor {fields['stressor']}: {error}") from None

    for line in text.splitlines():
        if re.match(r"^\S.*:\s*$", line):
            in_metrics = line.strip() == "metrics:"
            continue
        match = re.match(r"^\s+(- )?([\w-]+):\s*(.*)$", line)
        if not (in_metrics and match):
            continue
        if match.group(1):
            keep()
            fields = {}
        fields[match.group(2)] = match.group(3).strip().strip("'\"")
    keep()
    if not found:
        raise Unreadable("stress-ng: the metrics file has no stressor")
    return found


# Exit statuses of stress-ng (its manual page, "EXIT STATUS"). Only the first is good; those about options or missing resources say nothing about the node.
STRESS_NG_STATUS = {
    0: (True, "no stressor failed"),
    1: (None, "wrong options or a resource could not be had"),
    2: (False, "a stressor failed"),
    3: (None, "a stressor could not be started for lack of resources"),
    4: (None, "a stressor is not implemented on this machine"),
    5: (False, "a stressor was killed by an unexpected signal"),
    6: (None, "a stressor ended early"),
    7: (False, "the counters of a stressor cannot be trusted: its memory was corrupted or it was killed"),
}


def stress_ng_status(rc):
    """(True passed / False failed / None says nothing about the node, words)."""
    return STRESS_NG_STATUS.get(rc, (None, f"unknown exit status {rc}"))


class DiskFigures(NamedTuple):
    """One fio run. Rates in bytes per second, latencies of completion in milliseconds (99th percentile, None where not given)."""

    error: int
    write_bytes: int
    write_rate: float
    read_bytes: int
    read_rate: float
    write_p99_ms: float | None
    read_p99_ms: float | None


def _json_after(text, opening="{"):
    """The JSON document in `text`; tools print warnings before it (fio even with --output-format=json)."""
    start = text.find(opening)
    if start < 0:
        raise Unreadable(f"no JSON in: {text.strip()[:200]!r}")
    try:
        return json.JSONDecoder().raw_decode(text[start:])[0]
    except ValueError as error:
        raise Unreadable(f"damaged JSON: {error}") from None


def read_fio(text):
    """DiskFigures of all jobs of one fio run together."""
    document = _json_after(text)
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not jobs:
        raise Unreadable("fio: the report has no job")

    def rate(job, side):
        part = job.get(side) or {}
        # bw_bytes came with fio 3; before, bw is in KiB per second
        return float(part["bw_bytes"]) if "bw_bytes" in part else float(part.get("bw", 0)) * 1024

    def percentile(side):
        worst = None
        for job in jobs:
            part = (job.get(side) or {}).get("clat_ns") or {}
            value = (part.get("percentile") or {}).get("99.000000")
            if value is not None:
                worst = max(worst or 0.0, value / 1e6)
        return worst

    return DiskFigures(
        error=next((job["error"] for job in jobs if job.get("error")), 0),
        write_bytes=sum((job.get("write") or {}).get("io_bytes", 0) for job in jobs),
        write_rate=sum(rate(job, "write") for job in jobs),
        read_bytes=sum((job.get("read") or {}).get("io_bytes", 0) for job in jobs),
        read_rate=sum(rate(job, "read") for job in jobs),
        write_p99_ms=percentile("write"),
        read_p99_ms=percentile("read"),
    )


class NetworkFigures(NamedTuple):
    """One iperf3 run over TCP. Bits per second as the receiver counted them; retransmits None where the sender cannot say."""

    bits_per_second: float
    retransmits: int | None
    seconds: float


def read_iperf3(text):
    """NetworkFigures; Unreadable with the tool's own words where it reports an error ("the server is busy", "unable to connect")."""
    document = _json_after(text)
    if document.get("error"):
        raise Unreadable(f"iperf3: {document['error']}")
    end = document.get("end") or {}
    received, sent = end.get("sum_received") or {}, end.get("sum_sent") or {}
    if not received.get("bits_per_second") or not received.get("bytes"):
        raise Unreadable("iperf3: the report has no received bytes")
    return NetworkFigures(
        float(received["bits_per_second"]), sent.get("retransmits"), float(received.get("seconds", 0))
    )
