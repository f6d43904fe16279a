"""Records which process has created containers and networks, and removes the objects that a killed run has left.

Each container and network has labels that name the process that created it. The Docker engine keeps these objects when
this process has ended. So the next run finds objects of ended processes by their labels, and removes them. Several
machines may use the same engine. A run keeps the objects of other machines, because it can't check their processes.
Normally, the guardian removes the objects of a killed run. The labels are for the case that the guardian was killed,
too.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from docker.errors import NotFound

from tfoperator.local.identity import ProcessIdentity, identify, is_alive
from tfoperator.local.runtime.docker.engine import ENGINE_ERRORS, explain, remove_container, try_remove
from tfoperator.local.runtime.guardian import Guardian

logger = logging.getLogger(__name__)

RUN_LABEL = "tfoperator.run"
OWNER_LABEL = "tfoperator.owner"

_REMOVAL_SECONDS = 30.0  # an engine that removes many containers on a busy machine takes seconds for each


def new_run() -> dict[str, str]:
    """Return the labels of all objects that this process makes in a new run."""
    me = identify(os.getpid())
    started = me.started if me is not None else ""
    return {RUN_LABEL: secrets.token_hex(4), OWNER_LABEL: f"{platform.node()}|{os.getpid()}|{started}"}


def remove_run(api: Any, run: str) -> list[str]:
    """Remove every container and network of a run, in any state. Return the names of the containers."""
    return _remove(api, {"label": f"{RUN_LABEL}={run}"}, lambda _: True)


def remove_leftovers(api: Any) -> list[str]:
    """Remove the containers and networks of processes on this machine that have ended.

    Return the names of the containers.
    """
    return _remove(api, {"label": OWNER_LABEL}, _is_orphan)


def _remove(api: Any, filters: dict[str, str], chosen: Any) -> list[str]:
    removed = []
    try:
        containers = [
            container
            for container in api.containers(all=True, filters=filters)
            if chosen(container.get("Labels") or {})
        ]
        # Sandboxes come last, because other containers use their networks.
        for container in sorted(containers, key=_lends_its_network):
            if remove_container(api, container["Id"]):
                removed.append(str((container.get("Names") or [container["Id"]])[0]).lstrip("/"))
            else:
                _wait_until_gone(api, container["Id"])
        for network in api.networks(filters=filters):
            if chosen(network.get("Labels") or {}):
                try_remove(partial(api.remove_network, network["Id"]), network["Id"])
    except ENGINE_ERRORS as error:
        logger.warning("can't look for containers that earlier runs left in Docker: %s", explain(error))
    return removed


def _lends_its_network(container: Mapping[str, Any]) -> bool:
    return not str(container["HostConfig"].get("NetworkMode", "")).startswith("container:")


def _wait_until_gone(api: Any, container: str) -> None:
    """Wait until another process has removed a container. Only then can the container's network be removed."""
    try:
        api.wait(container, timeout=_REMOVAL_SECONDS, condition="removed")
    except NotFound:
        return
    except ENGINE_ERRORS as error:
        logger.warning("the container %s could not be removed from Docker: %s", container, explain(error))


def _is_orphan(labels: dict[str, str]) -> bool:
    host, _, rest = labels.get(OWNER_LABEL, "").partition("|")
    pid, _, started = rest.partition("|")
    if host != platform.node() or not pid.isdigit():
        return False
    return not is_alive(ProcessIdentity(int(pid), started))


_GUARDIAN_PROGRAM = Path(__file__).with_name("guardian_main.py")


def container_guardian(run: str) -> Guardian:
    """Return a guardian that removes the run's containers when this process ends.

    If this process sends the message ALL_IS_REMOVED before its end, the guardian removes nothing. Containers belong to
    the engine. So without a guardian, they would continue to run after a `kill -9` of this process. See
    `guardian_main`.
    """
    # The guardian imports modules from the same folders as this process; -P leaves out the program's own folder.
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
    return Guardian(["-P", str(_GUARDIAN_PROGRAM), run], environment={**os.environ, "PYTHONPATH": path})
