"""The settings of a step: resources, an image that another step chooses, and Kubernetes options.

`config_with` converts the settings into a config for the platform of the step's launcher. A setting is known when the
pipeline's file is read, or only when the step begins. `check_settings` checks each setting that is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.launcher import (
    BaseComponentLauncher,
    ComponentError,
    DockerPlatformConfig,
    ExecutorSpec,
    KubernetesPodPlatformConfig,
    PlatformConfig,
    ProcessPlatformConfig,
    TFJobPlatformConfig,
)
from tfoperator.pipeline.kfp import pod_options
from tfoperator.pipeline.kfp.machine_options import ObjectData, docker_arguments, ignored, layer_of
from tfoperator.pipeline.kfp.options import Options
from tfoperator.pipeline.kfp.resources import resources_of, with_resources
from tfoperator.pipeline.values import Value

RESOURCES, IMAGE = "resources", "image"
"""The names of two settings. `resources` has processors, memory and accelerators. `image` has the image of the
container, if the image is known only during the run. All other settings are Kubernetes options.
"""


_ORIGIN = "Kubernetes options of the file"


class MachineShare(msgspec.Struct, frozen=True):
    """The parts of this machine and of the run that a step's container may use.

    `objects` are the Secrets and ConfigMaps that the user has given. `work` is the working directory of the launch;
    before the launch, it is None. `facts` has values for the fields of a pod, such as `metadata.name`, because a
    container or process of this machine has no pod.
    """

    objects: ObjectData = {}
    work: Path | None = None
    facts: Mapping[str, str] = {}


def known_settings(settings: Mapping[str, Any]) -> Options:
    """Return the settings that are already known. A setting that is a `Value` is not known yet."""
    return {name: setting for name, setting in settings.items() if not isinstance(setting, Value)}


def check_settings(where: str, settings: Mapping[str, Any]) -> None:
    """Raise ComponentError if a setting is not valid. A setting that is still a `Value` is not checked."""
    plain = known_settings(settings)
    image = plain.pop(IMAGE, "unset")
    if not isinstance(image, str) or not image.strip():
        raise ComponentError(f"{where}: image: must be the name of an image, but is {image!r:.80}")
    if resources := plain.pop(RESOURCES, None):
        resources_of(f"{where}: resources", resources)
    pod_options.layer_of(f"{where}: Kubernetes options", plain)


def config_with(
    where: str,
    settings: Mapping[str, Any],
    config: PlatformConfig | None,
    launcher: type[BaseComponentLauncher],
    spec: ExecutorSpec,
    machine: MachineShare,
) -> PlatformConfig | None:
    """Return the platform config of a step's container: `config` merged over the settings of the step.

    `config` comes from the user, and overrides the settings, which come from the pipeline's file. The result has the
    type of `config`, or else a type that `launcher` accepts for `spec`. Raises ComponentError if a setting is invalid.
    """
    options = known_settings(settings)
    options.pop(IMAGE, None)  # a part of the container's spec
    resources = options.pop(RESOURCES, None)
    if options:
        for layer in _layers(f"{where}: Kubernetes options", options, config, launcher, spec, machine):
            named = layer.named(_ORIGIN)
            config = named if config is None else _merged(named, config)
    if resources is not None:
        fitting = with_resources(f"{where}: resources", resources, config)
        config = next((fit for fit in fitting if launcher.can_launch(spec, fit)), config)
    return config


def without_effect(settings: Mapping[str, Any], launcher: type[BaseComponentLauncher], spec: ExecutorSpec) -> list[str]:
    """Return the Kubernetes options that have no effect, because the launcher uses Docker or a process, not a pod."""
    for config, docker in ((DockerPlatformConfig(), True), (ProcessPlatformConfig(), False)):
        if launcher.can_launch(spec, config):
            return ignored(settings, docker=docker)
    return []


def _layers(
    where: str,
    options: Options,
    config: PlatformConfig | None,
    launcher: type[BaseComponentLauncher],
    spec: ExecutorSpec,
    machine: MachineShare,
) -> Sequence[PlatformConfig]:
    """Return a list with the options as a config of the type that the launcher accepts.

    The list is empty if the launcher accepts none of the four types: pod, TFJob, Docker and process.
    """
    pod = pod_options.layer_of(where, options)  # checks all options, also for Docker and processes
    if isinstance(config, KubernetesPodPlatformConfig):
        _check_parts(where, options, config.pod_spec)
    if _accepts(launcher, spec, config, KubernetesPodPlatformConfig):
        pod_spec = dict(pod.spec, **({"activeDeadlineSeconds": pod.deadline} if pod.deadline else {}))
        return [KubernetesPodPlatformConfig(pod_spec, labels=pod.labels, annotations=pod.annotations)]
    if _accepts(launcher, spec, config, TFJobPlatformConfig):
        policy = {"runPolicy": {"activeDeadlineSeconds": pod.deadline}} if pod.deadline else {}
        return [TFJobPlatformConfig(spec=policy, pod_spec=pod.spec, labels=pod.labels, annotations=pod.annotations)]
    if _accepts(launcher, spec, config, DockerPlatformConfig):
        local = layer_of(where, options, machine.objects, machine.work, machine.facts)
        mounts = [
            {"Type": "bind", "Source": mount.source, "Target": mount.path, "ReadOnly": mount.read_only}
            for mount in local.mounts
        ]
        more = {"mounts": mounts} if mounts else {}
        return [DockerPlatformConfig(environment=local.variables, **more, **docker_arguments(where, options))]
    if _accepts(launcher, spec, config, ProcessPlatformConfig):
        local = layer_of(where, options, machine.objects, machine.work, machine.facts)
        return [ProcessPlatformConfig({**local.places, **local.variables}, local.mounts)]
    return []


def _check_parts(where: str, options: Options, spec: Mapping[str, Any]) -> None:
    """Raise ComponentError if the options mount a claim, and the user's config mounts only a part of this claim.

    `options` come from the pipeline's file. With their mount, the container could write to the whole claim. Other parts
    of the claim may contain the records of runs, which only the runner may change.
    """
    mounts = [mount for container in spec.get("containers") or () for mount in container.get("volumeMounts") or ()]
    parted = {mount.get("name") for mount in mounts if mount.get("subPath") or mount.get("subPathExpr")}
    claims = {
        volume.get("persistentVolumeClaim", {}).get("claimName")
        for volume in spec.get("volumes") or ()
        if volume.get("name") in parted
    }
    if taken := sorted(claims.intersection(item["name"] for item in pod_options.named(options, "pvcMount"))):
        raise ComponentError(
            f"{where}.pvcMount: your platform config mounts only a part of claim {taken[0]}, but the pipeline's file "
            "mounts the whole claim: let your platform config mount another claim"
        )


def _merged(layer: PlatformConfig, config: PlatformConfig) -> PlatformConfig:
    """Return the config merged over the layer. For Docker, the result has the `mounts` of both.

    `DockerPlatformConfig.merge` alone would replace the layer's mounts by the config's mounts.
    """
    merged = layer.merge(config)
    if isinstance(layer, DockerPlatformConfig) and isinstance(config, DockerPlatformConfig):
        both = [*layer.run_kwargs.get("mounts", ()), *config.run_kwargs.get("mounts", ())]
        return merged.merge(DockerPlatformConfig(mounts=both)) if both else merged
    return merged


def _accepts(
    launcher: type[BaseComponentLauncher],
    spec: ExecutorSpec,
    config: PlatformConfig | None,
    kind: type[PlatformConfig],
) -> bool:
    return type(config) is kind if config is not None else launcher.can_launch(spec, kind())
