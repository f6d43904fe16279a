"""Prevents containers from moving a part of a volume between the check of its path and the mount by the engine.

This process checks the path, and then the engine mounts it. The engine resolves a path, follows links, and runs as
root; it has no call that accepts an open descriptor. A running container that has mounted a parent folder of the path
could create a link at the path after the check and before the mount (as in CVE-2017-1002101). So running containers
that could do this are paused between the check and the mount, and new containers that could do this start only
afterwards.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import NotFound

from tfoperator.local.runtime.beneath import UnsafePath
from tfoperator.local.runtime.docker.engine import ENGINE_ERRORS, explain
from tfoperator.local.runtime.protocol import LaunchError, Mount

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Start:
    """A container that is being started: the parts of volumes that must not move, and the folders to which it will
    write.
    """

    parts: frozenset[Path]
    writes: frozenset[Path]
    paused: frozenset[str] = frozenset()

    def disturbs(self, other: _Start) -> bool:
        return _above(self.writes, other.parts)


class QuietVolumes:
    """The containers of one run that write to volumes. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards the two fields below; never call the engine under it
        self._starting: set[_Start] = set()
        self._writers: dict[str, frozenset[Path]] = {}  # by container

    @contextmanager
    def starting(self, api: Any, container: str, mounts: Sequence[Mount]) -> Iterator[None]:
        """Protect the paths of the mounts while the `with` block starts `container`.

        The paths of its mounts are checked. Until the block ends, no other container can move a part of these paths.
        Raises LaunchError if a part of a volume can't be used, or if a container that could move this part can't be
        paused.
        """
        start = _Start(
            frozenset(mount.source for mount in mounts if mount.volume is not None),
            frozenset(mount.source for mount in mounts if not mount.read_only),
        )
        with self._changed:
            self._changed.wait_for(lambda: self._may_start(start))
            start.paused = self._disturbing(start)
            self._starting.add(start)
        paused: list[str] = []
        try:
            for other in sorted(start.paused):
                if _pause(api, other):
                    paused.append(other)
            for mount in mounts:
                mount.make_source()
            yield
            with self._changed:
                self._writers[container] = start.writes
        except UnsafePath as error:
            raise LaunchError(f"subPath {error}", 126) from None
        finally:
            for other in paused:
                _resume(api, other)
            with self._changed:
                self._starting.remove(start)
                self._changed.notify_all()

    def ended(self, container: str) -> None:
        """Forget the folders to which an ended container wrote."""
        with self._changed:
            self._writers.pop(container, None)

    def _disturbing(self, start: _Start) -> frozenset[str]:
        return frozenset(name for name, writes in self._writers.items() if _above(writes, start.parts))

    def _may_start(self, start: _Start) -> bool:
        wanted = self._disturbing(start)
        return not any(
            start.disturbs(other) or other.disturbs(start) or other.paused & wanted for other in self._starting
        )


def _above(writes: frozenset[Path], parts: frozenset[Path]) -> bool:
    """Return whether a container that writes to one of these folders can move one of these parts."""
    return any(folder in part.parents for folder in writes for part in parts)


def _pause(api: Any, container: str) -> bool:
    """Pause a container; return False if it has ended.

    Raises LaunchError if the container can't be paused and still runs.
    """
    try:
        api.pause(container)
    except NotFound:
        return False
    except ENGINE_ERRORS as error:
        try:
            state = api.inspect_container(container)["State"]
        except NotFound:
            return False
        if not state["Running"]:
            return False
        raise LaunchError(
            f"a mount with subPath is not safe: container {container} could replace a folder on the path of the "
            f"subPath by a link, and can't be paused: {explain(error)}",
            126,
        ) from None
    return True


def _resume(api: Any, container: str) -> None:
    try:
        api.unpause(container)
    except ENGINE_ERRORS as error:  # usually, the container has been removed
        logger.warning("container %s may still be paused: %s", container, explain(error))
