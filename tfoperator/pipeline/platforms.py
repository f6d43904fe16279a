"""What a platform needs to be told of a pipeline."""

from __future__ import annotations

import msgspec

from tfoperator.launcher import ComponentLaunchInfo, DockerComponentLauncher, DockerPlatformConfig
from tfoperator.pipeline.local_paths import local_path


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
