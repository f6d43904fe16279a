"""Where on this machine the event files of a job's TensorBoard are, for whoever wants to look at them after the run."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from tfoperator.api.v1.types import TFJob
from tfoperator.local.volumes import VOLUMES, Mount, VolumeManager, real_path

__all__ = ["tensorboard_log_dir"]


def tensorboard_log_dir(job: TFJob, run_dir: Path, *, in_container: bool = False) -> str:
    """Where the log directory of a job's TensorBoard lies when the run is over; "" without one, or if it is gone.

    What it has seen `in_container`, outside of all mounts, is gone with that.
    """
    board = job.spec.tensor_board
    if board is None:
        return ""
    claims = VolumeManager(run_dir / VOLUMES).claims(job.metadata.namespace)
    sources: dict[str, Path] = {}
    for volume in board.volumes:
        if isinstance(host := volume.get("hostPath"), dict):
            sources[volume["name"]] = Path(str(host.get("path")))
        elif isinstance(claim := volume.get("persistentVolumeClaim"), dict):
            sources[volume["name"]] = claims / str(claim.get("claimName"))
    mounts = [
        Mount(
            name=mount["name"],
            source=sources[mount["name"]] / str(mount.get("subPath") or ""),
            mount_path=mount["mountPath"],
        )
        for mount in board.volume_mounts
        if mount["name"] in sources
    ]
    if "://" in board.log_dir:
        return board.log_dir
    if in_container and not any(PurePosixPath(board.log_dir).is_relative_to(one.mount_path) for one in mounts):
        return ""
    path = real_path(board.log_dir, mounts)
    return path if Path(path).is_dir() else ""
