"""Figures from outside the contestants: CPU and memory from /proc, calls from the API server's audit log.

An operator's own statements don't count, so two operators in two languages are measured by one yardstick.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

CONTESTANT_USER = "system:serviceaccount:bench-system:contestant"
"""Each contestant's user at the API server: a service account, so priority and fairness apply as in a cluster."""

AUDIT_POLICY = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: ["{CONTESTANT_USER}"]
- level: None
"""

_TICKS = os.sysconf("SC_CLK_TCK")
_STATM_FIELDS = ("VmRSS", "VmHWM")

_QUIET_WINDOW = 2.0
_QUIET_SHARE = 0.03
"""An operator that uses less than this share of one core throughout the window is quiet."""
_SILENT_WINDOW = 7.0
"""Seconds. Longer than anything waits by itself: ours lets events wait for 5 s while the server is busy."""


@dataclass(frozen=True)
class Usage:
    """The usage of one process: CPU seconds since its start, memory in bytes now and at its peak."""

    cpu: float = 0.0
    rss: int = 0
    peak_rss: int = 0


@dataclass(frozen=True)
class Snapshot:
    """Everything that is measured, at one moment (`time.monotonic()`). `calls` are those since the log began."""

    at: float
    operator: Usage
    api_server: Usage
    calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def total_calls(self) -> int:
        """All calls but watches and leases."""
        return sum(self.calls.values())


def parse_stat(text: str) -> float:
    """CPU seconds, user and system, from /proc/PID/stat. The name in it may hold blanks and parentheses."""
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def parse_status(text: str) -> tuple[int, int]:
    """Resident bytes now and at the peak, from /proc/PID/status; 0 for a process that has ended."""
    values = dict.fromkeys(_STATM_FIELDS, 0)
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in values:
            values[name] = int(value.split()[0]) * 1024
    return values["VmRSS"], values["VmHWM"]


def read_usage(pid: int) -> Usage:
    """Return the usage of a process until now. Raises OSError if there is no such process."""
    folder = Path("/proc") / str(pid)
    rss, peak = parse_status((folder / "status").read_text())
    return Usage(parse_stat((folder / "stat").read_text()), rss, peak)


def total_usage(pids: Sequence[int]) -> Usage:
    """Return the sum of the usage of several processes until now. Raises OSError if a process does not exist."""
    usages = [read_usage(pid) for pid in pids]
    return Usage(
        sum(usage.cpu for usage in usages), sum(usage.rss for usage in usages), sum(usage.peak_rss for usage in usages)
    )


def median_and_p99(seconds: Sequence[float]) -> tuple[float, float]:
    """The median, and what 99 of 100 are at most (interpolated). Raises statistics.StatisticsError without any."""
    if len(seconds) == 1:
        return seconds[0], seconds[0]
    return statistics.median(seconds), statistics.quantiles(seconds, n=100, method="inclusive")[98]


class _User(msgspec.Struct):
    username: str = ""


class _Reference(msgspec.Struct):
    resource: str = ""
    subresource: str = ""


class _Entry(msgspec.Struct, rename="camel"):
    stage: str = ""
    verb: str = ""
    user: _User = msgspec.field(default_factory=_User)
    object_ref: _Reference | None = None


_decode_entry = msgspec.json.Decoder(_Entry).decode


def count_calls(lines: Iterable[bytes], user: str = CONTESTANT_USER) -> Counter[str]:
    """The user's completed calls by verb and resource (`create pods`). Watches and leases are left out.

    Raises msgspec.DecodeError for a line that is no audit event: a log that can't be read counts nothing.
    """
    counted: Counter[str] = Counter()
    for line in lines:
        entry = _decode_entry(line)
        reference = entry.object_ref or _Reference()
        if entry.stage != "ResponseComplete" or entry.user.username != user:
            continue
        if entry.verb == "watch" or reference.resource in ("leases", ""):
            continue
        resource = "/".join(filter(None, (reference.resource, reference.subresource)))
        counted[f"{entry.verb} {resource}"] += 1
    return counted


class AuditLog:
    """An audit log that grows, read piece by piece. Follows the API server's rotation. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._inode = 0
        self._counted: Counter[str] = Counter()

    def counts(self) -> Counter[str]:
        """Return all calls until now. The API server writes a line before it answers, so all finished calls count."""
        if not self._path.exists():
            return Counter()
        self._follow_rotation()
        with self._path.open("rb") as log:
            log.seek(self._offset)
            data = log.read()
        complete, newline, _ = data.rpartition(b"\n")
        self._offset += len(complete) + len(newline)
        self._counted += count_calls(complete.splitlines())
        return Counter(self._counted)

    def _follow_rotation(self) -> None:
        inode = self._path.stat().st_ino
        if self._inode and inode != self._inode:
            # A full file is renamed; what it got after our last look is still in it.
            for old in self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}"):
                if old.stat().st_ino == self._inode:
                    with old.open("rb") as log:
                        log.seek(self._offset)
                        self._counted += count_calls(log.read().splitlines())
            self._offset = 0
        self._inode = inode


def wait_quiet(pids: Sequence[int], timeout: float, share: float = _QUIET_SHARE) -> float:
    """Wait until each process uses less than that share of a core; returns the `time.monotonic()` when that began.

    It is their sum that is looked at. Raises TimeoutError after `timeout` seconds, OSError if a process ends.
    """
    growth = share * _QUIET_WINDOW * len(pids)
    try:
        return _wait_still(lambda: total_usage(pids).cpu, growth, timeout, _QUIET_WINDOW)
    except TimeoutError:
        raise TimeoutError(f"still busy after {timeout:.0f} s: process {', '.join(map(str, pids))}") from None


def wait_silent(calls: Callable[[], int], timeout: float, period: float = _SILENT_WINDOW) -> None:
    """Wait until `calls`, a count, has stood still for so many seconds.

    An operator that its own rate limit holds back uses hardly any CPU, and is not at rest. Raises TimeoutError after
    `timeout` seconds.
    """
    try:
        _wait_still(calls, 0, timeout, period)
    except TimeoutError:
        raise TimeoutError(f"there are still calls after {timeout:.0f} s") from None


def _wait_still(read: Callable[[], float], growth: float, timeout: float, window: float) -> float:
    """Wait until `read()` grows by no more than `growth` for `window` seconds; return when that began."""
    end = time.monotonic() + timeout
    began, before = time.monotonic(), read()
    while time.monotonic() < end:
        time.sleep(window / 8)
        now, value = time.monotonic(), read()
        if value - before > growth:
            began, before = now, value
        elif now - began >= window:
            return began
    raise TimeoutError
