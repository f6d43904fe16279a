"""Whose a container or network is, and what a run that was killed has left behind.

Everything is labelled with the process that made it. Docker outlives that process, so who starts next looks for labels
of processes that are no more, and removes what carries them. Only processes of this machine can be judged: one engine
may serve several.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
from typing import Any

from tfoperator.local.docker_runtime.engine import BROKEN, explain
from tfoperator.local.identity import ProcessIdentity, identify, is_alive

__all__ = ["OWNER_LABEL", "RUN_LABEL", "new_run", "remove_leftovers", "remove_run"]

logger = logging.getLogger(__name__)

RUN_LABEL = "tfoperator.run"
OWNER_LABEL = "tfoperator.owner"


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
        for one in sorted(containers, key=lambda one: str(one["HostConfig"].get("NetworkMode", "")), reverse=True):
            if _quietly(lambda one=one: api.remove_container(one["Id"], force=True, v=True)):
                removed.append(str((one.get("Names") or [one["Id"]])[0]).lstrip("/"))
        for one in api.networks(filters=filters):
            if chosen(one.get("Labels") or {}):
                _quietly(lambda one=one: api.remove_network(one["Id"]))
    except BROKEN as error:
        logger.warning("can't look for what is left in Docker: %s", explain(error))
    return removed


def _quietly(call: Any) -> bool:
    try:
        call()
    except BROKEN as error:
        logger.debug("not removed, or gone already: %s", explain(error))
        return False
    return True


def _is_orphan(labels: dict[str, str]) -> bool:
    host, _, rest = labels.get(OWNER_LABEL, "").partition("|")
    pid, _, started = rest.partition("|")
    if host != platform.node() or not pid.isdigit():
        return False
    return not is_alive(ProcessIdentity(int(pid), started))
