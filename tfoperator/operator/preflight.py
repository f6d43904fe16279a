"""Waits until the API server serves the operator's resources. Logs a clear line about each missing resource.

Without this wait, an operator that starts before the CRD is installed would fill its log with 404 errors of informers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.v1.types import TFJOBS
from tfoperator.base.clock import Clock, StopSignal
from tfoperator.controller import FLAVORS, KUBERNETES_POD_GROUPS, GangKind, GangScheduler
from tfoperator.kube import ListOptions
from tfoperator.kube.protocol.errors import (
    UNDECODABLE,
    ApiError,
    ConfigError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    TransportError,
    UnauthorizedError,
)
from tfoperator.kube.protocol.resources import PRIORITY_CLASSES, Resource
from tfoperator.kube.protocol.retry import LONGEST_WISH
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.kube.views.objects import decode_nothing

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.5
_MAX_PAUSE = 10.0
_REPEAT_SECONDS = 300.0


_RESTART_RULES_SINCE = (1, 35)
"""The first release of Kubernetes in which `restartPolicyRules` of containers are enabled by default."""


class Need(NamedTuple):
    """A resource that the API server must serve.

    `name` is the name of the resource in messages. `install` is the hint if the server does not serve the resource.
    `rights` is the file with the RBAC rules that let the operator use the resource.
    """

    resource: Resource
    name: str
    install: str
    rights: str


_TFJOBS_NEED = Need(
    TFJOBS,
    "TFJobs",
    "the TFJob CRD is not installed: apply manifests/base/crd.yaml, or run: "
    "tfoperator crd | kubectl apply --server-side -f -",
    "manifests/base/rbac.yaml",
)


_KUEUE_RIGHTS = "manifests/components/kueue/rbac.yaml"
_KUEUE_MISSING = "Kueue 0.15 or later is not installed: install it, or start the operator without --kueue"
KUEUE_NEEDS = (
    Need(WORKLOADS, f"Workloads ({WORKLOADS.group})", _KUEUE_MISSING, _KUEUE_RIGHTS),
    Need(FLAVORS, f"ResourceFlavors ({FLAVORS.group})", _KUEUE_MISSING, _KUEUE_RIGHTS),
)
"""The resources that jobs in queues of Kueue need. If a resource is missing, only these jobs wait, and the operator
works on all other jobs.
"""


_KUBERNETES_GANGS_NEED = Need(
    KUBERNETES_POD_GROUPS,
    f"PodGroups ({KUBERNETES_POD_GROUPS.group})",
    f"this API server does not serve PodGroups of {KUBERNETES_POD_GROUPS.api_version}: enable them in Kubernetes "
    "1.37 or later (--feature-gates=GenericWorkload=true --runtime-config=scheduling.k8s.io/v1beta1=true), or start "
    "the operator without --gang-scheduler-name=kubernetes",
    f"manifests/components/{GangKind.KUBERNETES}/kustomization.yaml",
)


def needed_resources(gang: GangScheduler | None = None) -> tuple[Need, ...]:
    """Return the resources that the operator needs. Pods and services are left out, because every server has them.

    With a `gang` scheduler, the operator also needs the resources with which it requests gangs (PodGroups, for
    example).
    """
    if gang is None:
        return (_TFJOBS_NEED,)
    if gang.is_kubernetes:
        return (_TFJOBS_NEED, _KUBERNETES_GANGS_NEED)
    rights = f"manifests/components/{gang.kind}/rbac.yaml"
    product = "Volcano" if gang.admits else "scheduler-plugins (coscheduling)"
    group = gang.pod_groups.group
    install = (
        f"the PodGroup CRD of {product}, podgroups.{group}, is not installed: install {product}, or start the "
        f"operator without --gang-scheduler-name={gang.name}"
    )
    return (
        _TFJOBS_NEED,
        Need(gang.pod_groups, f"PodGroups ({group})", install, rights),
        Need(PRIORITY_CLASSES, "PriorityClasses", "this API server does not serve PriorityClasses", rights),
    )


def await_resources(
    client: ApiClient,
    namespaces: Sequence[str],
    stop: StopSignal,
    clock: Clock,
    needs: Sequence[Need] = (_TFJOBS_NEED,),
) -> bool:
    """Return True when all needed resources can be listed in all namespaces. Return False if `stop` is set before.

    The function tries every 0.5 s at first, then less and less often, and at last every 10 s. It waits longer if the
    API server asks for a longer wait (`Retry-After`). It logs the problem when the problem changes, and again every 5
    minutes. The function has its own loop, and does not use the library tenacity, because it must remember which
    problem it logged, and when.
    """
    pause = _FIRST_PAUSE
    said, said_at = "", float("-inf")
    while not stop.is_set():
        missing = _first_missing(client, namespaces, needs)
        if missing is not None:
            message, error = missing
            now = clock.monotonic()
            if message != said or now - said_at >= _REPEAT_SECONDS:
                logger.warning("%s; trying again until this is corrected", message)
                said, said_at = message, now
            wish = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
            stop.wait(clock, max(pause, min(wish, LONGEST_WISH)))
            pause = min(pause * 2, _MAX_PAUSE)
        else:
            if said:
                logger.info("the operator can now list all objects that it needs")
            return True
    return False


def warn_of_missing(client: ApiClient, namespaces: Sequence[str], needs: Sequence[Need]) -> None:
    """Log the first of these resources that can't be listed, with its remedy."""
    missing = _first_missing(client, namespaces, needs)
    if missing is not None:
        logger.warning("%s", missing[0])


def _first_missing(client: ApiClient, namespaces: Sequence[str], needs: Sequence[Need]) -> tuple[str, KubeError] | None:
    """Return the problem of the first resource that can't be listed, as text and as an error.

    Return None if all can be listed.
    """
    for need in needs:
        for namespace in namespaces if need.resource.namespaced else ("",):
            try:
                client.list(need.resource, namespace, decode_nothing, ListOptions(limit=1))
            except KubeError as error:
                return _explain(error, need), error
    return None


class _Version(msgspec.Struct, frozen=True):
    major: str = ""
    minor: str = ""


def has_restart_rules(fetch: Callable[[str], bytes], *, assumed: bool = True) -> bool:
    """Return whether the API server's release supports `restartPolicyRules` of containers by default.

    Return `assumed` if the release is unknown. `fetch` GETs a path. Some cloud providers append a `+` to the minor
    version, for example `35+`.
    """
    try:
        version = msgspec.json.decode(fetch("/version"), type=_Version)
        found = int(version.major), int(version.minor.rstrip("+"))
    except (KubeError, *UNDECODABLE, ValueError) as error:
        does = "supports" if assumed else "does not support"
        logger.warning(
            "the API server's version is unknown (%s): the operator assumes that it %s restartMode InPlace", error, does
        )
        return assumed
    return found >= _RESTART_RULES_SINCE


def _explain(error: KubeError, need: Need) -> str:
    if isinstance(error, NotFoundError):
        return need.install
    if isinstance(error, UnauthorizedError):
        return f"the API server does not accept the operator's credentials ({error})"
    if isinstance(error, ForbiddenError):
        return f"the operator may not list {need.name}: apply {need.rights}, which grants this right ({error})"
    if isinstance(error, TransportError):
        return f"the API server does not answer ({error})"
    if isinstance(error, ConfigError):
        return f"the operator has no usable credentials ({error})"
    return f"{need.name} can't be listed ({error})"
