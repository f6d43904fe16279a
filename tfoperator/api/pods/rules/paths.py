"""The rules for paths in volumes and for permission bits."""

from __future__ import annotations

from tfoperator.api.pods.rules.faults import Faults, Json, invalid, within

MAX_ID = 2**31 - 1
"""The largest user ID or group ID that Kubernetes accepts: it uses 31 of the 32 bits of an ID on Linux."""


def no_backsteps(field: str, path: str) -> Faults:
    """Yield a fault if a path has the part `..`, which could lead out of its directory."""
    if ".." in path.split("/"):
        yield invalid(field, path, "must not contain '..'")


def descending(field: str, path: str) -> Faults:
    """Yield the faults of a path that must be relative and stay within its directory."""
    if path.startswith("/"):
        yield invalid(field, path, "must be a relative path")
    yield from no_backsteps(field, path)


def file_path(field: str, path: str) -> Faults:
    """Yield the faults of the path of a file that a kubelet writes."""
    yield from descending(field, path)
    if path.startswith("..") and not path.startswith("../"):
        yield invalid(field, path, "must not start with '..'")


def mode(field: str, bits: int | None, highest: int = 0o777) -> Faults:
    """Yield a fault unless the permission bits are absent, or a number from 0 to `highest`."""
    yield from within(field, bits, 0, highest, f"must be a number from 0 to {highest} ({highest:#o} in octal)")


def identity(path: str, parent: Json, *fields: str) -> Faults:
    """Yield the faults of the user IDs and group IDs in `fields` of `parent`; `path` is the path of `parent`."""
    for field in fields:
        yield from within(f"{path}.{field}", parent.get(field), 0, MAX_ID)
