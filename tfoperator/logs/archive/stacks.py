"""Stacks of a container's threads in the folder of its pod: appended to one file, within a limit.

The record of the pod's logs stays unchanged: stacks are taken while it runs, and tell nothing about its runs.
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
"""Limit of one container's file, of which the end is kept. A hundred threads of a hundred frames are about one MiB."""

_FILE_MODE = 0o640  # as for logs: the archive's readers read them, too


def with_stacks(folder: Path, record: ArchivedPod, container: str, when: datetime, text: str) -> ArchivedPod:
    """Fill a new folder with the files of the pod's `record` and these stacks; return the new record.

    Raises OSError.
    """
    known = next((one for one in record.containers if one.name == container), ArchivedContainer(name=container))
    before = _read(Path(record.folder) / known.stacks) if _is_beside(known.stacks) else b""
    new = f"Stacks at {when:%Y-%m-%dT%H:%M:%SZ}\n{text.rstrip()}\n\n".encode(errors="replace")
    path = folder / stacks_name(container)
    path.write_bytes((before + new)[-MAX_STACKS_BYTES:])
    path.chmod(_FILE_MODE)
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
    """Return the containers with their stacks files in `old`, which are linked into the new folder.

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
    """Return whether the file is in the new folder now; the archive may have removed it meanwhile, to make room."""
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
