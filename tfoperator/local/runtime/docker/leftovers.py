"""Whose a container or network is, and what a run that was killed has left behind.

Everything is labelled with the process that made it. Docker outlives that process, so the next run searches for labels
of processes that have ended, and removes what carries them. Only processes of this machine can be judged: one engine
may serve several. The labels are for the worst case, in which the guardian is gone, too.
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

from tfoperator.local.identity import ProcessIdentity, identify, is_alive
from tfoperator.local.runtime.docker.engine import ENGINE_ERRORS, NotFound, explain, remove_container, try_remove
from tfoperator.local.runtime.guardian import Guardian

logger = logging.getLogger(__name__)

RUN_LABEL = "tfoperator.run"
OWNER_LABEL = "tfoperator.owner"

_REMOVAL_SECONDS = 30.0  # an engine that removes many containers on a busy machine takes seconds for one


def new_run() -> dict[str, str]:
    """The labels of everything that this process makes in a new run."""
    me = identify(os.getpid())
    started = me.started if me is not None else ""
    return {RUN_LABEL: secrets.token_hex(4), OWNER_LABEL: f"{platform.node()}|{os.getpid()}|{started}"}


def remove_run(api: Any, run: str) -> list[str]:
    """Remove every container and network of a run, whatever its state; returns the names of the containers."""
    return _remove(api, {"label": f"{RUN_LABEL}={run}"}, lambda _: True)


def remove_leftovers(api: Any) -> list[str]:
    """Remove what dead processes of this machine have left behind; returns the names of the containers."""
    return _remove(api, {"label": OWNER_LABEL}, _is_orphan)


def _remove(api: Any, filters: dict[str, str], chosen: Any) -> list[str]:
    removed = []
    try:
        containers = [one for one in api.containers(all=True, filters=filters) if chosen(one.get("Labels") or {})]
        # Those that others borrow their network from come last.
        for one in sorted(containers, key=_lends_its_network):
            if remove_container(api, one["Id"]):
                removed.append(str((one.get("Names") or [one["Id"]])[0]).lstrip("/"))
            else:
                _wait_until_gone(api, one["Id"])
        for one in api.networks(filters=filters):
            if chosen(one.get("Labels") or {}):
                try_remove(partial(api.remove_network, one["Id"]), one["Id"])
    except ENGINE_ERRORS as error:
        logger.warning("can't look for what is left in Docker: %s", explain(error))
    return removed


def _lends_its_network(container: Mapping[str, Any]) -> bool:
    return not str(container["HostConfig"].get("NetworkMode", "")).startswith("container:")


def _wait_until_gone(api: Any, container: str) -> None:
    """Somebody else is removing it already: a network can be removed only after the last container of it."""
    try:
        api.wait(container, timeout=_REMOVAL_SECONDS, condition="removed")
    except NotFound:
        return
    except ENGINE_ERRORS as error:
        logger.warning("the container %s is left in Docker: %s", container, explain(error))


def _is_orphan(labels: dict[str, str]) -> bool:
    host, _, rest = labels.get(OWNER_LABEL, "").partition("|")
    pid, _, started = rest.partition("|")
    if host != platform.node() or not pid.isdigit():
        return False
    return not is_alive(ProcessIdentity(int(pid), started))


_PROGRAM = Path(__file__).with_name("guardian_main.py")


def container_guardian(run: str) -> Guardian:
    """Sees to it that no container of a run outlives this process, unless it is stopped with ALL_IS_REMOVED.

    See `guardian_main`: containers belong to the engine, so unlike processes they would live on after a `kill -9`.
    """
    # It may need what this process imports, wherever that came from; -P keeps its own folder out of that.
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
    return Guardian(["-P", str(_PROGRAM), run], environment={**os.environ, "PYTHONPATH": path})
