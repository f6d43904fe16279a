"""Keeps the stacks of a container's threads in the folder of its pod.

The stacks are appended to a file whose size has a limit. In the record (`pod.json`), the fields about logs stay
unchanged, because these fields are about runs that have ended, and stacks are taken from a run that goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any

import msgspec

from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod, is_file_name, stacks_name
from tfoperator.logs.archive.place import Place

MAX_STACKS_BYTES = 4 << 20
"""The size limit in bytes for the file of a container. A file that is too large keeps its end. A hundred threads with a
hundred frames each need about one MiB.
"""

_FILES = ("log", "previous_log", "stacks")


def with_stacks(
    place: Place, target: PurePath, folder: Path, record: ArchivedPod, container: str, when: datetime, text: str
) -> ArchivedPod:
    """Fill the new `folder` with the files of the pod's old folder `target`. Return the new record.

    Append the stacks `text`, which were taken at the time `when`, to the file of `container`. `record` is the old
    record. Raises OSError.
    """
    archived = next(
        (entry for entry in record.containers if entry.name == container), ArchivedContainer(name=container)
    )
    new = f"Stacks at {when:%Y-%m-%dT%H:%M:%SZ}\n{text.rstrip()}\n\n".encode(errors="replace")
    path = folder / stacks_name(container)
    path.write_bytes((_read(place, target, archived.stacks) + new)[-MAX_STACKS_BYTES:])
    updated = _carried(place, target, folder, archived, _FILES[:2])
    updated = msgspec.structs.replace(updated, stacks=place.store(target, path, when))
    others = (_carried(place, target, folder, entry, _FILES) for entry in record.containers if entry is not archived)
    return msgspec.structs.replace(record, containers=(updated, *others))


def _carried(
    place: Place, target: PurePath, folder: Path, container: ArchivedContainer, files: Iterable[str]
) -> ArchivedContainer:
    """Take over the files of a container from the old folder `target` to the new `folder`.

    `files` are the names of the fields that contain file names. Return the container with the new file names. If a
    file was removed to make room, its name is "".
    """
    names: dict[str, Any] = {}
    for member in files:
        name = getattr(container, member)
        names[member], _ = place.take(target, name, folder / name)
    if "log" in names:
        names["earlier"] = tuple(_carried(place, target, folder, run, ("log",)) for run in container.earlier)
    return msgspec.structs.replace(container, **names)


def _read(place: Place, target: PurePath, name: str) -> bytes:
    try:
        return place.read(str(target / name), last=MAX_STACKS_BYTES) if is_file_name(name) else b""
    except FileNotFoundError:
        return b""
