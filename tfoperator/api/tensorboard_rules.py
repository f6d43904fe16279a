"""Says what is wrong with `spec.tensorBoard`. Pure.

Only what would leave a job without its TensorBoard for sure is an error; a log directory that nobody writes to can't be
told from a good one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any

from tfoperator.api.problems import Problem, Severity, member, shown
from tfoperator.api.v1.types import TensorBoard, TensorBoardServiceType

__all__ = ["MAX_LOG_DIR_LENGTH", "MAX_VOLUMES", "validate_tensorboard"]

MAX_LOG_DIR_LENGTH = 1024
"""Of a log directory; object stores allow names of 1024 bytes."""

MAX_VOLUMES = 64
"""Of a TensorBoard; far more than anybody mounts."""

_PATH = "spec.tensorBoard"


def validate_tensorboard(board: TensorBoard | None) -> Iterator[Problem]:
    """Everything that is wrong with a TensorBoard, errors and warnings; nothing if there is none."""
    if board is None:
        return
    yield from _validate_log_dir(board)
    if board.service_type and board.service_type not in set(TensorBoardServiceType):
        options = ", ".join(TensorBoardServiceType)
        yield Problem(member(_PATH, "serviceType"), f"must be one of {options}, but is {shown(board.service_type)}")
    yield from _validate_volumes(board)
    for name in ("limits", "requests"):
        amounts = (board.resources or {}).get(name)
        if amounts is not None and not isinstance(amounts, dict):
            yield Problem(f"{_PATH}.resources.{name}", "must be an object such as {cpu: 500m, memory: 1Gi}")


def _validate_log_dir(board: TensorBoard) -> Iterator[Problem]:
    path = member(_PATH, "logDir")
    if not board.log_dir:
        yield Problem(path, "is required: the directory (or URL such as gs://bucket/logs) of the event files")
    elif len(board.log_dir) > MAX_LOG_DIR_LENGTH:
        yield Problem(path, f"must have at most {MAX_LOG_DIR_LENGTH} characters")
    elif board.log_dir.startswith("/") and not board.volume_mounts:
        yield _warning(path, f"{shown(board.log_dir)} is in none of its volumeMounts: nobody writes there in a cluster")


def _validate_volumes(board: TensorBoard) -> Iterator[Problem]:
    path = member(_PATH, "volumes")
    names: set[str] = set()
    if len(board.volumes) > MAX_VOLUMES:
        yield Problem(path, f"must have at most {MAX_VOLUMES} items")
    for position, volume in enumerate(board.volumes):
        name = yield from _text(f"{path}[{position}]", volume, "name")
        if name and name in names:
            yield Problem(f"{path}[{position}].name", f"{shown(name)} is the name of another volume, too")
        names.add(name)
        kinds = [kind for kind, source in volume.items() if kind != "name" and source is not None]
        if len(kinds) != 1:
            found = f", but has {' and '.join(kinds)}" if kinds else ""
            yield Problem(f"{path}[{position}]", f"must have one kind of volume{found}")
        elif kinds == ["emptyDir"]:
            yield _warning(f"{path}[{position}]", "an emptyDir is its pod's own: what replicas write is not in it")
    path = member(_PATH, "volumeMounts")
    if len(board.volume_mounts) > MAX_VOLUMES:
        yield Problem(path, f"must have at most {MAX_VOLUMES} items")
    for position, mount in enumerate(board.volume_mounts):
        yield from _text(f"{path}[{position}]", mount, "mountPath")
        name = yield from _text(f"{path}[{position}]", mount, "name")
        if name and name not in names:
            yield Problem(f"{path}[{position}].name", f"{shown(name)} is none of {_PATH}.volumes")


def _text(path: str, value: Mapping[str, Any], name: str) -> Generator[Problem, None, str]:
    """A required string of an object, "" if it has none; yields what is wrong with it."""
    found = value.get(name)
    if isinstance(found, str) and found:
        return found
    yield Problem(member(path, name), "is required" if found in (None, "") else f"must be a string, is {shown(found)}")
    return ""


def _warning(path: str, message: str) -> Problem:
    return Problem(path, message, Severity.WARNING)
