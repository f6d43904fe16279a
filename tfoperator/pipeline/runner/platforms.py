"""The launchers for each platform, and checks that a step's container can't write to the records of runs.

The records determine which outputs are reused, the lineage, and which containers are stopped. So only the runner may
write them. In a cluster, steps write their outputs to a volume that the runner also mounts at the same path, because
outputs are identified by their path. If the records are on this volume, a step must mount only a part of it
(`subPath`).
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
from tfoperator.pipeline.kfp.settings import IMAGE, MachineShare, config_with

_PRIVATE = frozenset({"configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "projected", "secret"})
"""Kinds of volumes that only a single pod can write to, such as `emptyDir`, or that are read-only, such as `secret`."""

Launchers = tuple[type[BaseComponentLauncher], ...]

_PODS: Launchers = (InProcessComponentLauncher, KubernetesPodComponentLauncher, TFJobComponentLauncher)
IN_CLUSTER: Launchers = (*_PODS, KubernetesClaimLauncher)
"""The launchers for a runner that itself runs in a pod. Its pod has no Docker engine, and its image does not contain
the programs of the steps, so steps run in pods of their own.
"""
ON_KUBERNETES: Launchers = (*IN_CLUSTER, DockerComponentLauncher, ProcessComponentLauncher)
"""With these launchers, a container without a platform config runs as a pod."""
ON_DOCKER: Launchers = (DockerComponentLauncher, *_PODS, ProcessComponentLauncher, FolderClaimLauncher)
"""With these launchers, a container without a platform config runs on Docker. Claims are folders of this machine."""
AS_PROCESSES: Launchers = (ProcessComponentLauncher, DockerComponentLauncher, *_PODS, FolderClaimLauncher)
"""With these launchers, a container without a platform config runs as a process of this machine. Claims are folders of
this machine.
"""


def with_root(info: ComponentLaunchInfo, root: str) -> ComponentLaunchInfo:
    """Return the info of a component. On Docker, its config mounts a local `pipeline_root` at the same path.

    If the config already mounts `pipeline_root`, nothing changes. In a cluster, the user's platform config must mount a
    volume for `pipeline_root`, because only the user can choose the right volume.
    """
    path = local_path(root)
    if path is None or info.launcher is not DockerComponentLauncher:
        return info
    config = info.platform_config
    docker_config = config if isinstance(config, DockerPlatformConfig) else DockerPlatformConfig()
    return msgspec.structs.replace(info, platform_config=docker_config.with_volume(str(path)))


def with_settings(info: ComponentLaunchInfo, step: Step, machine: MachineShare) -> ComponentLaunchInfo:
    """Return the info of a step with its settings (resources, image, Kubernetes options) that are known so far.

    Raises ComponentError if a setting is not valid.
    """
    if not step.settings:
        return info
    component, where = info.component, f"step {step.name}"
    spec, image = component.executor_spec, step.settings.get(IMAGE)
    config = config_with(where, step.settings, info.platform_config, info.launcher, spec, machine)
    if isinstance(spec, IRContainerSpec) and isinstance(image, str):
        component = msgspec.structs.replace(component, executor_spec=msgspec.structs.replace(spec, image=image))
    return msgspec.structs.replace(info, component=component, platform_config=config)


def check_records_are_hidden(step: str, launcher: BaseComponentLauncher, place: str) -> None:
    """Raise ComponentError if a step's container could write to its runner's records at `place`, a path or a URL.

    The step's pod and the runner mount a shared volume at the same path. So a container could write to the records if
    it mounts a whole volume at `place` or at a parent folder, and the volume does not belong to the step's pod alone.
    If the container mounts only a part of the volume (`subPath`), the check assumes that the part does not contain the
    records.
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
    """Raise ComponentError if TFX's program runs in a pod whose `terminationMessagePath` is the step's `output.json`.

    The kubelet makes an empty file at `terminationMessagePath` before the program starts. TFX's program reads
    `output.json` if it exists, and can't decode an empty file.
    """
    spec = step.executor_spec
    if not isinstance(spec, IRContainerSpec) or not spec.reads_own_report:
        return
    if not isinstance(launcher, ObjectComponentLauncher) or (
        in_cluster() and on_volume(root) and shares_root(launcher, root)
    ):
        return
    containers = [container for pod in _pod_specs(launcher.manifest) for container in _objects(pod.get("containers"))]
    if any(str(container.get("terminationMessagePath")).endswith(f"/{OUTPUT_FILE}") for container in containers):
        raise ComponentError(
            f"step {step.name}: TFX's program would read an empty file of results, because Kubernetes creates the file "
            "of the termination message before the program starts: set --tmp-path to a directory that the step's pod "
            "also mounts, or to the URL of an object store"
        )


def on_volume(root: str) -> bool:
    """Return whether `pipeline_root` is on a volume of this process's container, and not on the file system of `/`."""
    path = local_path(root)
    there = next((folder for folder in (path, *path.parents) if folder.exists()), None) if path is not None else None
    return there is not None and there.stat().st_dev != Path("/").stat().st_dev


def shares_root(launcher: BaseComponentLauncher, root: str) -> bool:
    """Return whether the container of a component's pod mounts a shared volume at `pipeline_root`, and can write to it.

    A volume that only this pod can use, such as an `emptyDir`, does not count. The result is always False for a TFJob:
    all its replicas would write the same `output.json`, but only the file of the chief (or worker 0) counts.
    """
    path = local_path(root)
    if path is None or not isinstance(launcher, KubernetesPodComponentLauncher):
        return False
    pods = [*_pod_specs(launcher.manifest)]
    own = [
        _shared_mount(pod, container, path)
        for pod in pods
        for container in _objects(pod.get("containers"))
        if container.get("name") == MAIN
    ]
    return bool(own) and all(own)


def _shared_mount(pod: Mapping[str, Any], container: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Return the volume mount through which a container can write to a path on a shared volume, or {} if there is none.

    A volume is shared unless its kind is in _PRIVATE.
    """
    shared = {volume.get("name") for volume in _objects(pod.get("volumes")) if _PRIVATE.isdisjoint(volume.keys())}
    mounts = [volume_mount for volume_mount in _objects(container.get("volumeMounts")) if volume_mount.get("mountPath")]
    by_place = {_parts(volume_mount["mountPath"]): volume_mount for volume_mount in mounts}
    mount = next((by_place[place] for place in map(_parts, (path, *path.parents)) if place in by_place), {})
    return mount if mount.get("name") in shared and not mount.get("readOnly") else {}


def _pod_specs(manifest: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all pod specs in an object, at any depth. A mapping with a list `containers` counts as a pod spec."""
    if isinstance(manifest, Mapping):
        if isinstance(manifest.get("containers"), list):
            yield manifest
        for member in manifest.values():
            yield from _pod_specs(member)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _parts(path: Any) -> tuple[str, ...]:
    """Return the parts of a path. The first part is the root directory."""
    return PurePosixPath("/", str(path or "")).parts
