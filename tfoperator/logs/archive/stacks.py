"""Stacks of a container's threads in the folder of its pod: added one below the other, within a bound.

What is known of the pod's logs stays as it was: stacks are taken while it runs, and say nothing about its runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod, stacks_name
from tfoperator.logs.archive.log_file import link

MAX_STACKS_BYTES = 4 << 20
"""Of one container's file: the end is kept. A hundred threads of a hundred frames are about one MiB."""

_MODE = 0o640  # as logs: whoever reads the archive reads them, too


def with_stacks(folder: Path, record: ArchivedPod, container: str, when: datetime, text: str) -> ArchivedPod:
    """Fill a new folder with what the pod's `record` has and these stacks; returns what is the record then.

    Raises OSError.
    """
    known = next((one for one in record.containers if one.name == container), ArchivedContainer(name=container))
    before = _read(Path(record.folder) / known.stacks) if _is_beside(known.stacks) else b""
    new = f"Stacks at {when:%Y-%m-%dT%H:%M:%SZ}\n{text.rstrip()}\n\n".encode(errors="replace")
    path = folder / stacks_name(container)
    path.write_bytes((before + new)[-MAX_STACKS_BYTES:])
    path.chmod(_MODE)
    for one in record.containers:
        others = (one.log, one.previous_log, one.stacks if one is not known else "")
        for name in filter(_is_beside, others):
            _take_over(Path(record.folder) / name, folder / name)
    told = msgspec.structs.replace(known, stacks=path.name)
    rest = (one for one in record.containers if one is not known)
    return msgspec.structs.replace(record, containers=(told, *rest))


def carry_stacks(
    folder: Path, old: ArchivedPod | None, containers: Iterable[ArchivedContainer]
) -> tuple[ArchivedContainer, ...]:
    """The containers with the files that `old` has of their stacks, and that the new folder has then, too.

    Raises OSError.
    """
    kept = {one.name: one.stacks for one in old.containers if _is_beside(one.stacks)} if old is not None else {}
    return tuple(
        msgspec.structs.replace(one, stacks=kept[one.name])
        if old is not None
        and one.name in kept
        and _take_over(Path(old.folder) / kept[one.name], folder / kept[one.name])
        else one
        for one in containers
    )


def _take_over(source: Path, path: Path) -> bool:
    """Whether the file is in the new folder now; the archive may have removed it meanwhile, to make room."""
    try:
        link(source, path)
    except FileNotFoundError:
        return False
    return True


def _is_beside(name: str) -> bool:
    return bool(name) and os.sep not in name


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_STACKS_BYTES)
    except FileNotFoundError:
        return b""
