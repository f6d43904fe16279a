"""Where on this machine the event files of a job's TensorBoard are, to be shown again after the run."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from tfoperator.api.v1.types import TFJob
from tfoperator.local.node import VOLUMES, VolumeManager
from tfoperator.local.runtime import Mount, real_path


def tensorboard_log_dir(job: TFJob, run_dir: Path, *, in_container: bool = False) -> str:
    """Where the log directory of a job's TensorBoard lies when the run is over; "" without one, or if it is gone.

    What it has seen `in_container`, outside of all mounts, is gone with that.
    """
    tensorboard = job.spec.tensor_board
    if tensorboard is None:
        return ""
    claims = VolumeManager(run_dir / VOLUMES).claims(job.metadata.namespace)
    sources: dict[str, Path] = {}
    for volume in tensorboard.volumes:
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
        for mount in tensorboard.volume_mounts
        if mount["name"] in sources
    ]
    if "://" in tensorboard.log_dir:
        return tensorboard.log_dir
    if in_container and not any(PurePosixPath(tensorboard.log_dir).is_relative_to(one.mount_path) for one in mounts):
        return ""
    path = real_path(tensorboard.log_dir, mounts)
    return path if Path(path).is_dir() else ""
