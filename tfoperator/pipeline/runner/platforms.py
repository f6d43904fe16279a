"""Which platforms containers run on, and what a platform needs to be told of a pipeline."""

from __future__ import annotations

import msgspec

from tfoperator.launcher import (
    BaseComponentLauncher,
    ComponentLaunchInfo,
    DockerComponentLauncher,
    DockerPlatformConfig,
    InProcessComponentLauncher,
    KubernetesPodComponentLauncher,
    TFJobComponentLauncher,
)
from tfoperator.pipeline.local_paths import local_path

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
