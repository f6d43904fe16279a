"""Mounts for a process that belongs to no pod: a step of a pipeline.

The namespace and its mounts end with the process. A mount path that is missing in a folder of a person (a home,
`/tmp`) is refused. An empty folder or file at this path would have to be made, and removed after the process ends. But
the process may outlive its launcher, which would have to remove this folder or file.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tfoperator.launcher import PermanentFailure
from tfoperator.launcher.core.context import FolderMount
from tfoperator.local.runtime.beneath import UnsafePath, make_beneath
from tfoperator.local.runtime.process.container_main import COMMAND, encode
from tfoperator.local.runtime.process.mounts.mount_plan import MountHost, plan_mounts
from tfoperator.local.runtime.process.mounts.namespaces import Namespaces, look
from tfoperator.local.runtime.protocol import LaunchError, Mount

_REPORT = "9"
"""The descriptor to which the first program (`container_main`) writes its report. It is a copy of standard error, so
the report is in the log of the command. The launcher's lock on the log has a higher descriptor, so this number is free.
"""


@functools.cache
def _is_possible() -> bool:
    return not Namespaces(Path.cwd() / ".tfoperator", Path.cwd()).refusal


def mounted_command(mounts: Sequence[FolderMount], needed: Sequence[Path]) -> list[str] | None:
    """Return the words that come before a command, and that give it these mounts.

    Return None if the machine permits no such mounts. The command starts in the first of the folders `needed`. All
    these folders stay visible if a folder is mounted above them. Raises PermanentFailure if a mount path can't or must
    not be used. The message names the path.
    """
    if not _is_possible():
        return None
    here = Path.cwd()
    kept = (*needed, here, Path(sys.prefix), Path(sys.base_prefix))
    machine = MountHost(
        look=look,
        user=os.geteuid(),
        personal=(str(Path.home().resolve()), str(here)),
        needed=tuple(dict.fromkeys(str(folder.resolve()) for folder in kept)),
    )
    try:
        plan = plan_mounts(
            [Mount(mount.path, Path(mount.source).resolve(), mount.path, mount.read_only) for mount in mounts], machine
        )
        for point in plan.points:
            if not point.volume:
                raise PermanentFailure(
                    f"a folder can't be mounted at {point.path}, which does not exist: create it first"
                )
            make_beneath(Path(point.volume), os.path.relpath(point.path, point.volume), folder=point.folder)
    except (LaunchError, UnsafePath, OSError) as error:
        raise PermanentFailure(f"a folder can't be mounted: {error}") from error
    binds = [(bind.source, bind.target, bind.read_only) for bind in plan.binds]
    directory = str(needed[0])
    words = [*COMMAND, "run", _REPORT, directory, directory, *encode(plan.mirrors, binds)]
    return ["/bin/sh", "-c", f'exec "$@" {_REPORT}>&2', "mounts", *words]
