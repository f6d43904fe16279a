"""Reads and removes the data of artifacts, by URI: a path of this machine, or the URL of objects (`s3://` ...).

For objects, `exists`, `remove`, `content` and `version` may raise ObjectStoreError.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tfoperator.base.files import local_path, open_regular
from tfoperator.object_store import Objects, ObjectStoreError, is_object_url

logger = logging.getLogger(__name__)

_MAX_VALUE = 1 << 18
"""The maximum size in bytes of the file or object that contains a value (`Integer`, `String` ...)."""
_MAX_FILES = 10_000
"""The maximum number of files below a directory, or of objects, that `version` includes."""


def exists(uri: str) -> bool:
    """Return whether a URI is an existing path of this machine, or the URL of objects that exist."""
    path = local_path(uri)
    if path is None:
        return is_object_url(uri) and next(Objects(uri).here(), None) is not None
    return os.path.lexists(path)


def is_there(uri: str, *, unknown: bool) -> bool:
    """Return whether the data at a URI exists. Return `unknown` if the object store can't be read now."""
    try:
        return exists(uri)
    except ObjectStoreError as error:
        logger.warning(
            "%s can't be read now, so the runner will read it again before a later step uses it: %s", uri, error
        )
        return unknown


def content(uri: str) -> bytes:
    """Return the bytes of a file or an object. Return b"" if the object does not exist.

    Raises OSError, also if the file does not exist or the object is too large. Raises ValueError if the file is too
    large.
    """
    path = local_path(uri)
    if path is None:
        fetched = Objects(uri).get("", limit=_MAX_VALUE)
        return b"" if fetched is None else fetched[0]
    with open_regular(path) as stream:
        data = stream.read(_MAX_VALUE + 1)
    if len(data) > _MAX_VALUE:
        raise ValueError(f"it has more than {_MAX_VALUE} bytes")
    return data


def version(uri: str) -> str:
    """Return a text that changes when the data at a URI changes. The text contains names, sizes and times.

    For a directory, the text contains all files below it, up to 10 000. For objects, it contains ETags in place of
    times. For any other URI, the text is empty.
    """
    path = local_path(uri)
    if path is not None:
        return ";".join(_described(path))
    objects = islice(Objects(uri).here(), _MAX_FILES) if is_object_url(uri) else ()
    return ";".join(f"{entry.key},{entry.size},{entry.version.get('e_tag', entry.modified)}" for entry in objects)


def remove(uri: str) -> bool:
    """Remove a file, a directory or objects. Return whether anything existed."""
    path = local_path(uri)
    if not exists(uri):
        return False
    if path is None:
        Objects(uri).remove()
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return True


def _described(path: Path) -> Iterator[str]:
    with suppress(OSError, ValueError):  # a path with NUL raises ValueError
        status = path.stat()
        yield f"{status.st_size},{status.st_mtime_ns}"
        for file in islice(_files(path), _MAX_FILES):
            with suppress(OSError):
                status = file.lstat()
                yield f"{file.relative_to(path)},{status.st_size},{status.st_mtime_ns}"


def _files(path: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names))
