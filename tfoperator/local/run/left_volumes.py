"""Deletes the volumes that killed runs have left.

Normally, the volumes of a pod are deleted when the pod has ended. After `kill -9` of a run, its volumes stay in its
directory, and may contain copies of Secrets. So the next run in the same folder deletes these volumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tfoperator.base.files import is_locked
from tfoperator.base.private_files import check_own
from tfoperator.local.node.volumes import TEMPORARY, VOLUMES, VolumeManager
from tfoperator.local.run.kept import LOG, is_run


def remove_left_volumes(run_dir: Path) -> None:
    """Delete the volumes that killed runs have left in `run_dir`, and in the other directories in the same folder.

    The caller owns `run_dir`, and has started no pod yet. The folders of claims stay, and also the volumes of runs with
    `--keep`. The function skips a run that is alive, and a directory whose files another user may replace.
    """
    for directory in (run_dir, *_killed_runs(run_dir)):
        volumes = directory / VOLUMES
        if (volumes / TEMPORARY).is_file():
            VolumeManager(volumes).remove_left_behind()


def _killed_runs(run_dir: Path) -> Iterator[Path]:
    for volumes in sorted(run_dir.absolute().parent.glob(f"*/{VOLUMES}")):
        directory = volumes.parent
        has_left = (volumes / TEMPORARY).is_file() and _is_our_own(directory) and _is_our_own(volumes)
        if has_left and is_run(directory) and not is_locked(directory / LOG):
            yield directory


def _is_our_own(folder: Path) -> bool:
    try:
        check_own(folder)
    except OSError:
        return False
    return not folder.is_symlink()
