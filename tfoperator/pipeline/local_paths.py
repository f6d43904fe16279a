"""URIs that are paths of this machine: existence and version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

_MAX_FILES = 10_000
"""Maximum number of files checked below a directory."""


def local_path(uri: str) -> Path | None:
    """Return the path of a URI on this machine; None for one elsewhere (`gs://bucket/x`)."""
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    return None if parts.scheme and "://" in uri else Path(uri)


def exists(uri: str) -> bool:
    """Return whether a URI is an existing path of this machine."""
    path = local_path(uri)
    return path is not None and os.path.lexists(path)


def version(uri: str) -> str:
    """Return a digest of the file, or the files below the directory: names, sizes and times; "" for other URIs."""
    path = local_path(uri)
    if path is None:
        return ""
    return ";".join(_described(path))


def _described(path: Path) -> Iterator[str]:
    try:
        found = path.stat()
    except OSError:
        return
    yield f"{found.st_size},{found.st_mtime_ns}"
    if not path.is_dir():
        return
    seen = 0
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted(files):
            seen += 1
            if seen > _MAX_FILES:
                return
            try:
                one = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            yield f"{os.path.relpath(os.path.join(folder, name), path)},{one.st_size},{one.st_mtime_ns}"
