"""Where a container's volumes lie on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import msgspec

from tfoperator.local.runtime.beneath import make_beneath


class Mount(msgspec.Struct, frozen=True):
    """One volume of one container: where its content lies, and where the container wants to see it."""

    name: str
    source: Path
    mount_path: str
    read_only: bool = False
    volume: Path | None = None
    """With a `subPath`: the whole volume, below which containers may have put links on the way to `source`."""

    def make_source(self) -> None:
        """Have something at `source`, if it is a part of a volume, and no link on the way. Raises UnsafePath."""
        if self.volume is not None:
            make_beneath(self.volume, str(self.source.relative_to(self.volume)))


def real_path(path: str, mounts: Sequence[Mount]) -> str:
    """Where a path of a container lies on this machine: in the innermost mount that it is below, else where it says."""
    wanted = PurePosixPath(path)
    for mount in sorted(mounts, key=lambda one: len(PurePosixPath(one.mount_path).parts), reverse=True):
        if wanted.is_relative_to(mount.mount_path):
            return str(mount.source / wanted.relative_to(mount.mount_path))
    return path
