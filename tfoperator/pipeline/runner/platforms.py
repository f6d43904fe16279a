"""Which platforms containers run on, and what those must not write to: the records of runs. Pure.

Who writes records decides what is used again, what was made from what, and what is stopped: that is the runner's, and
no step's. In a cluster steps get their outputs on a volume that the runner has mounted, too, at the same path, for
outputs are named by their path. If the records are on that volume, a step has to be given a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from tfoperator.launcher import (
    BaseComponentLauncher,
    ComponentError,
    ComponentLaunchInfo,
    DockerComponentLauncher,
    DockerPlatformConfig,
    InProcessComponentLauncher,
    KubernetesPodComponentLauncher,
    TFJobComponentLauncher,
)
from tfoperator.launcher.platforms.kubernetes import ObjectComponentLauncher
from tfoperator.pipeline.local_paths import local_path

_ITS_OWN = frozenset({"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "projected", "secret"})
"""Volumes that nobody else writes to, or that are no storage."""

ON_DOCKER: tuple[type[BaseComponentLauncher], ...] = (
    InProcessComponentLauncher,
    DockerComponentLauncher,
    KubernetesPodComponentLauncher,
    TFJobComponentLauncher,
)
"""A container without a config runs on Docker."""
ON_KUBERNETES: tuple[type[BaseComponentLauncher], ...] = (
    InProcessComponentLauncher,
    KubernetesPodComponentLauncher,
    TFJobComponentLauncher,
    DockerComponentLauncher,
)
"""A container without a config runs as a pod."""
IN_CLUSTER = tuple([one for one in ON_KUBERNETES if one is not DockerComponentLauncher])
"""The launchers' own pods have no Docker."""


def with_root(info: ComponentLaunchInfo, root: str) -> ComponentLaunchInfo:
    """The same, but on Docker a container sees a local `pipeline_root` at its own path, unless its config mounts there.

    In clusters the platform config has the volume: nobody else knows which.
    """
    path = local_path(root)
    if path is None or info.launcher is not DockerComponentLauncher:
        return info
    config = info.platform_config
    known = config if isinstance(config, DockerPlatformConfig) else DockerPlatformConfig()
    return msgspec.structs.replace(info, platform_config=known.with_volume(str(path)))


def check_records_are_hidden(step: str, launcher: BaseComponentLauncher, place: str) -> None:
    """Raise ComponentError if a step's container may write to the records at `place`, a path or a URL."""
    records = local_path(place)
    if records is not None and isinstance(launcher, ObjectComponentLauncher):
        check_manifest(step, launcher.manifest, PurePosixPath(records.absolute()))


def check_manifest(step: str, manifest: Mapping[str, Any], records: PurePosixPath) -> None:
    """Raise ComponentError if a container of a step's object may write where its runner has the records.

    That is so if it mounts a volume which is not its own, as a whole, where the runner's path leads through. Of a
    mounted part (`subPath`) it is taken that it is another one.
    """
    for pod in _pod_specs(manifest):
        shared = {volume.get("name") for volume in _objects(pod.get("volumes")) if _ITS_OWN.isdisjoint(volume.keys())}
        for container in (*_objects(pod.get("initContainers")), *_objects(pod.get("containers"))):
            mount = _nearest(container, records)
            if mount is None or mount.get("name") not in shared or mount.get("readOnly") or _is_part(mount):
                continue
            raise ComponentError(
                f"step {step}: its container {container.get('name')} could write to the records of all runs in "
                f"{records}, for it mounts the whole volume {mount.get('name')} at {mount.get('mountPath')}: mount a "
                "part of it (subPath), such as the folder of pipeline_root, or keep the records elsewhere (--home)"
            )


def _pod_specs(manifest: Any) -> Iterator[Mapping[str, Any]]:
    """The specs of pods in an object, wherever its kind has them."""
    if isinstance(manifest, Mapping):
        if isinstance(manifest.get("containers"), list):
            yield manifest
        for member in manifest.values():
            yield from _pod_specs(member)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _nearest(container: Mapping[str, Any], path: PurePosixPath) -> Mapping[str, Any] | None:
    """The mount that a path of the container leads into."""
    mounts = [mount for mount in _objects(container.get("volumeMounts")) if mount.get("mountPath")]
    above = [mount for mount in mounts if path.is_relative_to(_mount_path(mount))]
    return max(above, key=lambda mount: len(_mount_path(mount).parts), default=None)


def _mount_path(mount: Mapping[str, Any]) -> PurePosixPath:
    return PurePosixPath("/", str(mount["mountPath"]))


def _is_part(mount: Mapping[str, Any]) -> bool:
    return bool(mount.get("subPathExpr")) or bool(PurePosixPath(str(mount.get("subPath") or "")).parts)
