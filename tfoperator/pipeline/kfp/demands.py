"""Finds settings in a Kubeflow Pipelines file for which the user of this machine must give permission.

The author of a file chooses the folder of its outputs and the options of its containers. The user may not know this
author. So the user must allow outputs outside of the current folder, and Docker options that let a container reach more
of the machine, such as `privileged`. The module reads the file system only to follow symbolic links.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfoperator.base.files import local_path
from tfoperator.base.urls import shown_url
from tfoperator.launcher import DockerPlatformConfig
from tfoperator.pipeline.graph import Graph
from tfoperator.pipeline.kfp.reading import Configs

_HARMLESS = frozenset(
    {
        "environment", "labels", "user", "working_dir", "hostname", "domainname", "stop_signal", "healthcheck", "init",
        "tty", "read_only", "tmpfs", "shm_size", "pull", "platform", "network_disabled", "device_requests",
        "nano_cpus", "cpu_count", "cpu_percent", "cpu_period", "cpu_quota", "cpu_shares", "cpuset_cpus", "cpuset_mems",
        "mem_limit", "mem_reservation", "memswap_limit", "mem_swappiness", "pids_limit", "ulimits",
    }
)  # fmt: skip
"""The options of Docker that give a container no access to the machine, except to its processors, memory and GPUs."""


def foreign_root(graph: Graph, here: Path) -> str:
    """Return the place of the pipeline's outputs if it is not below the folder `here`. Otherwise return "".

    An object store is never below `here`. Its use needs the user's permission, because the pipeline would read and
    write objects with the user's credentials.
    """
    root = local_path(graph.root)
    return "" if root is not None and _is_below(root, here) else shown_url(graph.root)


def privileges(platforms: Configs, platform: str, here: Path) -> list[str]:
    """Return the Docker options of the file's containers for which the user must give permission.

    An item has the form `STEP: docker: OPTION`. For a mount of a folder outside of `here`, OPTION is `volumes: FOLDER`.
    """
    options = []
    for step, configs in platforms.get(platform, {}).items():
        for config in configs:
            if isinstance(config, DockerPlatformConfig):
                options += [f"{step}: docker: {option}" for option in _reaching(config.run_kwargs, here)]
    return options


def _reaching(options: Mapping[str, Any], here: Path) -> Iterator[str]:
    for name, value in sorted(options.items()):
        if name == "volumes":
            yield from (f"volumes: {place}" for place in _sources(value) if not _is_below(Path(place), here))
        elif name not in _HARMLESS:
            yield name


def _sources(volumes: Any) -> Iterator[str]:
    """Yield the folders of the machine that these volumes mount.

    For a named volume of the Docker engine, yield `//NAME`. This path is not below the user's current folder, so the
    user must allow the volume.
    """
    for volume in volumes if isinstance(volumes, Mapping | list | tuple) else [volumes]:
        source = str(volume) if isinstance(volumes, Mapping) else str(volume).split(":")[0]
        yield source if "/" in source else f"//{source}"


def _is_below(path: Path, here: Path) -> bool:
    """Return whether `path` is the folder `here` or below this folder, after all symbolic links are followed."""
    top = os.path.realpath(here)
    return os.path.commonpath((top, os.path.realpath(here / path))) == top
