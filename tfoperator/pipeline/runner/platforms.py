"""The platforms of containers, and the protection of the records of runs from them. No I/O.

The records decide what is reused, the lineage, and what is stopped: only the runner may write them,
not a step. In a cluster steps write outputs to a volume that the runner mounts, too, at the same path, since
outputs are identified by path. If the records are on that volume, a step must mount only a part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from tfoperator.base.files import local_path
from tfoperator.launcher import (
    BaseComponentLauncher,
    ComponentError,
    ComponentLaunchInfo,
    DockerComponentLauncher,
    DockerPlatformConfig,
    InProcessComponentLauncher,
    KubernetesPodComponentLauncher,
    ProcessComponentLauncher,
    TFJobComponentLauncher,
)
from tfoperator.launcher.core.context import in_cluster
from tfoperator.launcher.core.output_document import OUTPUT_FILE
from tfoperator.launcher.platforms.kubernetes.config import MAIN
from tfoperator.launcher.platforms.kubernetes.launcher import ObjectComponentLauncher
from tfoperator.pipeline.graph import Step
from tfoperator.pipeline.kfp.claims import FolderClaimLauncher, KubernetesClaimLauncher
from tfoperator.pipeline.kfp.container import IRContainerSpec
from tfoperator.pipeline.kfp.settings import Machine, config_with

_PRIVATE = frozenset({"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "projected", "secret"})
"""Volumes that are a pod's own, or that are no storage."""

Launchers = tuple[type[BaseComponentLauncher], ...]

_PODS: Launchers = (InProcessComponentLauncher, KubernetesPodComponentLauncher, TFJobComponentLauncher)
IN_CLUSTER: Launchers = (*_PODS, KubernetesClaimLauncher)
"""The launchers' own pods have no Docker, and not the programs of the steps."""
ON_KUBERNETES: Launchers = (*IN_CLUSTER, DockerComponentLauncher, ProcessComponentLauncher)
"""A container without a config runs as a pod."""
ON_DOCKER: Launchers = (DockerComponentLauncher, *_PODS, ProcessComponentLauncher, FolderClaimLauncher)
"""A container without a config runs on Docker. Claims are folders of this machine."""
AS_PROCESSES: Launchers = (ProcessComponentLauncher, DockerComponentLauncher, *_PODS, FolderClaimLauncher)
"""A container without a config runs as a process of this machine. Claims are folders of this machine."""


def with_root(info: ComponentLaunchInfo, root: str) -> ComponentLaunchInfo:
    """Return the info; on Docker a container sees a local `pipeline_root` at its own path, unless the config has it.

    In clusters the platform config must mount the volume: only the user knows which.
    """
    path = local_path(root)
    if path is None or info.launcher is not DockerComponentLauncher:
        return info
    config = info.platform_config
    known = config if isinstance(config, DockerPlatformConfig) else DockerPlatformConfig()
    return msgspec.structs.replace(info, platform_config=known.with_volume(str(path)))


def with_settings(info: ComponentLaunchInfo, step: Step, machine: Machine) -> ComponentLaunchInfo:
    """Return the info with the settings of a step that are known by now. Raises ComponentError."""
    if not step.settings:
        return info
    spec, where = info.component.executor_spec, f"step {step.name}"
    config = config_with(where, step.settings, info.platform_config, info.launcher, spec, machine)
    return msgspec.structs.replace(info, platform_config=config)


def check_records_are_hidden(step: str, launcher: BaseComponentLauncher, place: str) -> None:
    """Raise ComponentError if a step's container may write to its runner's records at `place`, a path or a URL.

    That is so if it mounts a whole volume, not its own, on the runner's path. A mounted part (`subPath`) is assumed to
    be another folder.
    """
    path = local_path(place)
    if path is None or not isinstance(launcher, ObjectComponentLauncher):
        return
    records = path.absolute()
    for pod in _pod_specs(launcher.manifest):
        for container in (*_objects(pod.get("initContainers")), *_objects(pod.get("containers"))):
            mount = _shared_mount(pod, container, records)
            if not mount or mount.get("subPathExpr") or len(_parts(mount.get("subPath"))) > 1:
                continue
            raise ComponentError(
                f"step {step}: its container {container.get('name')} mounts the whole volume {mount.get('name')} at "
                f"{mount.get('mountPath')}, so it could change the records of all runs in {records}: mount a part of "
                "the volume (subPath), such as the folder of pipeline_root, or keep the records in another place "
                "(--home)"
            )


def check_report_is_new(step: Step, launcher: BaseComponentLauncher, root: str) -> None:
    """Raise ComponentError if the file of a step's report exists before its program starts, and the program reads it.

    The kubelet makes the file of a termination message, empty. TFX's program takes that for a document.
    """
    spec = step.executor_spec
    if not isinstance(spec, IRContainerSpec) or not spec.reads_own_report:
        return
    if not isinstance(launcher, ObjectComponentLauncher) or (
        in_cluster() and on_volume(root) and shares_root(launcher, root)
    ):
        return
    containers = [one for pod in _pod_specs(launcher.manifest) for one in _objects(pod.get("containers"))]
    if any(str(one.get("terminationMessagePath")).endswith(f"/{OUTPUT_FILE}") for one in containers):
        raise ComponentError(
            f"step {step.name}: a file for the results exists before TFX's program starts, because Kubernetes "
            "creates the file of the termination message, and TFX's program would read this empty file: give "
            "--tmp-path, a directory that the step's pod mounts, too, or the URL of an object store"
        )


def on_volume(root: str) -> bool:
    """Return whether `pipeline_root` is on a file system of its own here, and not on this container's file system."""
    path = local_path(root)
    there = next((one for one in (path, *path.parents) if one.exists()), None) if path is not None else None
    return there is not None and there.stat().st_dev != Path("/").stat().st_dev


def shares_root(launcher: BaseComponentLauncher, root: str) -> bool:
    """Return whether the component's container mounts a volume, not its pod's own, on `pipeline_root`, to write there.

    In a cluster that is the volume of this process, at the same path, since outputs are identified by path. This is
    never so for a TFJob: all its replicas would write one output.json, of which the leader's counts.
    """
    path = local_path(root)
    if path is None or not isinstance(launcher, KubernetesPodComponentLauncher):
        return False
    pods = [*_pod_specs(launcher.manifest)]
    own = [
        _shared_mount(pod, one, path)
        for pod in pods
        for one in _objects(pod.get("containers"))
        if one.get("name") == MAIN
    ]
    return bool(own) and all(own)


def _shared_mount(pod: Mapping[str, Any], container: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Return the mount by which a container may write to a path, if that is of a volume which is not the pod's own."""
    shared = {volume.get("name") for volume in _objects(pod.get("volumes")) if _PRIVATE.isdisjoint(volume.keys())}
    mounts = [one for one in _objects(container.get("volumeMounts")) if one.get("mountPath")]
    by_place = {_parts(one["mountPath"]): one for one in mounts}
    mount = next((by_place[place] for place in map(_parts, (path, *path.parents)) if place in by_place), {})
    return mount if mount.get("name") in shared and not mount.get("readOnly") else {}


def _pod_specs(manifest: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the pod specs in an object, wherever its kind has them."""
    if isinstance(manifest, Mapping):
        if isinstance(manifest.get("containers"), list):
            yield manifest
        for member in manifest.values():
            yield from _pod_specs(member)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _parts(path: Any) -> tuple[str, ...]:
    """Return the parts of a path; the first part is the root."""
    return PurePosixPath("/", str(path or "")).parts
