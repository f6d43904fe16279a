"""URIs of artifacts, paths of this machine or of objects: existence, version, removal.

For objects each may raise ObjectStoreError.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tfoperator.base.files import local_path, open_regular
from tfoperator.base.object_store import Objects, is_object_url

_MAX_VALUE = 1 << 18
"""Maximum size of a value in bytes."""
_MAX_FILES = 10_000
"""Maximum number of files checked below a directory."""


def exists(uri: str) -> bool:
    """Return whether a URI is an existing path of this machine, or one of objects that exist."""
    path = local_path(uri)
    if path is None:
        return is_object_url(uri) and next(Objects(uri).here(), None) is not None
    return os.path.lexists(path)


def content(uri: str) -> bytes:
    """Return the bytes of a file or an object. Raises OSError, and ValueError if it is too large."""
    path = local_path(uri)
    if path is None:
        found = Objects(uri).get("", limit=_MAX_VALUE)
        return b"" if found is None else found[0]
    with open_regular(path) as stream:
        data = stream.read(_MAX_VALUE + 1)
    if len(data) > _MAX_VALUE:
        raise ValueError(f"it has more than {_MAX_VALUE} bytes")
    return data


def version(uri: str) -> str:
    """Return names, sizes and times of a file, or of the files below a directory; of objects, ETags instead of times.

    Empty for other URIs.
    """
    path = local_path(uri)
    if path is not None:
        return ";".join(_described(path))
    objects = islice(Objects(uri).here(), _MAX_FILES) if is_object_url(uri) else ()
    return ";".join(f"{one.key},{one.size},{one.version.get('e_tag', one.modified)}" for one in objects)


def remove(uri: str) -> bool:
    """Remove a file, a directory or objects; return whether there was anything."""
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
    with suppress(OSError):
        found = path.stat()
        yield f"{found.st_size},{found.st_mtime_ns}"
        for one in islice(_files(path), _MAX_FILES):
            with suppress(OSError):
                found = one.lstat()
                yield f"{one.relative_to(path)},{found.st_size},{found.st_mtime_ns}"


def _files(path: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names))
