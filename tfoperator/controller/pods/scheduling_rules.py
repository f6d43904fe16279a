"""The names that an administrator allows in the PodGroups of jobs: priority classes, queues and annotations.

The operator creates PodGroups with its own rights. A quota of pods by priority class, or an admission policy on pods,
does not check the names in PodGroups. So the operator itself must check whether the job's namespace may use these
names: an administrator lists the allowed priority classes and queues.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tfoperator.api.fields.problems import shown
from tfoperator.api.v1.parts.run_policy import SchedulingPolicy
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.pods.gang import GangScheduler
from tfoperator.controller.pods.pod_groups import PodGroupSpec

_NOT_COPIED = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
"""Annotations that describe the job's own manifest. On any other object they are wrong."""

_HARMLESS_ANNOTATIONS = (
    "volcano.sh/preemptable",
    "volcano.sh/task-topology-affinity",
    "volcano.sh/task-topology-anti-affinity",
    "volcano.sh/task-topology-task-order",
)
"""The annotations that Volcano (1.14) reads and that harm no other job. The first annotation allows Volcano to preempt
the job's pods. The others are rules about the nodes of the job's pods.

Volcano's other annotations give a job an advantage: it starts before jobs that wait longer (`sla-waiting-time`), or
Volcano may not evict its pods (`jdb-min-available`, `jdb-max-unavailable`). The coscheduling plugin (0.34) reads no
annotations.
"""

ANY = "*"
"""In a list of names this means every name, except the names of priority classes that begin with `system-`."""

_SYSTEM_PREFIX = "system-"
"""The prefix of Kubernetes' own priority classes. Pods of these classes preempt all other pods."""

_POLICY = "spec.runPolicy.schedulingPolicy"
_MAX_SHOWN_NAMES = 10


class AllowedNames(msgspec.Struct, frozen=True, rename="camel"):
    """Names that jobs may use. A namespace in `namespaces` has its own list, which replaces `default`."""

    default: tuple[str, ...]
    namespaces: dict[str, tuple[str, ...]] = {}

    def of(self, namespace: str) -> tuple[str, ...]:
        """Return the names that jobs of a namespace may use."""
        return self.namespaces.get(namespace, self.default)


class SchedulingRules(msgspec.Struct, frozen=True, rename="camel"):
    """The names allowed in PodGroups.

    The defaults are all queues, all priority classes except the system's, and a few annotations.
    """

    priority_classes: AllowedNames = AllowedNames((ANY,))
    queues: AllowedNames = AllowedNames((ANY,))
    annotations: AllowedNames = AllowedNames(_HARMLESS_ANNOTATIONS)

    def annotations_of(self, job: TFJob) -> dict[str, str]:
        """Return the job's annotations that are copied to its PodGroup."""
        allowed = self.annotations.of(job.metadata.namespace)
        return {
            name: value
            for name, value in job.metadata.annotations.items()
            if name not in _NOT_COPIED and _allows(allowed, name)
        }

    def problems(
        self, gang: GangScheduler, namespace: str, policy: SchedulingPolicy, current: PodGroupSpec | None
    ) -> Iterator[str]:
        """Yield a message about each part of the job's scheduling policy that is not allowed.

        `current` is the spec of the job's existing PodGroup. Values that the PodGroup already has are not checked: they
        were allowed when the job started, or were not checked yet at that time.
        """
        has = current or PodGroupSpec()
        wanted = gang.spec(policy, 0, {})
        name, allowed = wanted.priority_class_name, self.priority_classes.of(namespace)
        if name != has.priority_class_name and not _allows(allowed, name, but=_SYSTEM_PREFIX):
            yield _refusal("priorityClass", name, namespace, allowed, but=_SYSTEM_PREFIX)
        name, allowed = wanted.queue, self.queues.of(namespace)
        if name != has.queue and not _allows(allowed, name):
            yield _refusal("queue", name, namespace, allowed)


def _allows(allowed: tuple[str, ...], name: str, *, but: str = "") -> bool:
    """Return whether a name is allowed: `allowed` has the name, or the name is empty.

    If `allowed` has `ANY`, all names are allowed, except names that begin with `but`.
    """
    return not name or name in allowed or (ANY in allowed and not (but and name.startswith(but)))


def _refusal(field: str, name: str, namespace: str, allowed: tuple[str, ...], *, but: str = "") -> str:
    names = [f"any but {but}*" if entry == ANY and but else entry for entry in allowed]
    listed = ", ".join(names[:_MAX_SHOWN_NAMES]) + (" and more" if len(names) > _MAX_SHOWN_NAMES else "")
    return f"{_POLICY}.{field}: {shown(name)} is not allowed in namespace {namespace}; allowed: {listed or 'none'}"
