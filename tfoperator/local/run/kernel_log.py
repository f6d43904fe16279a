"""What the kernel's log says of processes that it killed because memory ran out, where this user may read it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

_KMSG = Path("/dev/kmsg")
_RECORD_BYTES = 8192  # of one record, as the kernel bounds them
_MAX_RECORDS = 100_000
_KILLED = re.compile(r"(?:Out of memory|Memory cgroup out of memory): Kill(?:ed)? process (\d+) ")


def out_of_memory_kills(records: Iterable[str], pids: Collection[int]) -> dict[int, str]:
    """The kernel's last sentence about each of these processes that it killed for memory. Pure.

    A record is `priority,number,microseconds,flags;text`, as /dev/kmsg has it, with lines of its context after it.
    """
    found = {}
    for record in records:
        text = record.partition(";")[2].partition("\n")[0]
        match = _KILLED.search(text)
        if match is not None and int(match[1]) in pids:
            found[int(match[1])] = text.strip()
    return found


def read_kernel_log(path: Path = _KMSG) -> list[str]:
    """Every record that there is; empty where there is no such log, or it is not for this user."""
    records: list[str] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return records
    try:
        while len(records) < _MAX_RECORDS:
            try:
                data = os.read(descriptor, _RECORD_BYTES)
            except BrokenPipeError:  # overwritten while we read: the next read goes on behind it
                continue
            except OSError:  # BlockingIOError: that was the last one
                break
            if not data:
                break
            records.append(data.decode(errors="replace"))
    finally:
        os.close(descriptor)
    return records
