"""Gang schedulers and their PodGroups: the resource, the membership of pods, and the changes to a PodGroup.

Two schedulers are known, as in the Go operator: Volcano, and every scheduler built with the coscheduling plugin of
Kubernetes' scheduler-plugins. Each has a PodGroup resource of its own, and recognises a group's pods in its own way.

The operator makes PodGroups with its own rights. A quota of pods by priority class, or an admission policy on pods,
never sees the names in them, so the operator itself must check whether the job's namespace may use them: an
administrator lists the allowed priority classes and queues.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tfoperator.api import names
from tfoperator.api.problems import shown
from tfoperator.api.quantity import parse_quantity
from tfoperator.api.v1.types import SchedulingPolicy, TFJob
from tfoperator.controller.pods.template import Template
from tfoperator.kube.objects import GROUP_NAME_ANNOTATION, HasMetadata, ObjectMeta
from tfoperator.kube.resources import Resource

VOLCANO_POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
COSCHEDULING_POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")

_VOLCANO = "volcano"
_VOLCANO_TASK_ANNOTATION = "volcano.sh/task-spec"
_COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"

_NOT_COPIED = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
"""Annotations about the job's own manifest, which are wrong on any other object."""

_HARMLESS_ANNOTATIONS = (
    "volcano.sh/preemptable",
    "volcano.sh/task-topology-affinity",
    "volcano.sh/task-topology-anti-affinity",
    "volcano.sh/task-topology-task-order",
)
"""What Volcano (1.14) reads in a PodGroup and no other job loses by: a lower claim, and how a job's pods are placed.

By the others a job gets in before those that wait (`sla-waiting-time`) or may not be evicted (`jdb-min-available`,
`jdb-max-unavailable`). The coscheduling plugin (0.34) reads none.
"""

ANY = "*"
"""In a list of names: every name, but for a system class."""

_SYSTEM_PREFIX = "system-"
"""The prefix of Kubernetes' own priority classes, whose pods preempt all others."""

_POLICY = "spec.runPolicy.schedulingPolicy"
_MAX_SHOWN_NAMES = 10


class PodGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a PodGroup, of either kind."""

    min_member: int = 0
    queue: str = ""
    priority_class_name: str = ""
    min_resources: dict[str, str | int] = {}
    schedule_timeout_seconds: int | None = None


class PodGroupCondition(msgspec.Struct, frozen=True):
    """One condition of a Volcano PodGroup. Its times are left out: they change every minute, and no code needs them."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodGroupStatus(msgspec.Struct, frozen=True):
    """The status that a scheduler writes to a PodGroup."""

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()


class PodGroup(HasMetadata, frozen=True):
    """A PodGroup of either kind, trimmed; with all its annotations."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


decode_pod_group = msgspec.json.Decoder(PodGroup).decode


class GangScheduler(msgspec.Struct, frozen=True):
    """One gang scheduler.

    `name` is the schedulerName of its pods. `admits`: it decides by the PodGroup alone whether the job may have pods
    yet, so they are not created before.
    """

    name: str
    pod_groups: Resource
    admits: bool

    @property
    def has_classes(self) -> bool:
        """Whether its PodGroups name a queue and a priority class."""
        return self.admits

    def add_member(self, template: Template, job: TFJob, replica_type: str) -> None:
        """Make the template's pods members of the job's PodGroup. One that names a scheduler keeps it."""
        if not template.scheduler_name:
            template.spec = template.spec | {"schedulerName": self.name}
        if self.admits:
            template.annotations = template.annotations | {
                GROUP_NAME_ANNOTATION: job.metadata.name,
                _VOLCANO_TASK_ANNOTATION: replica_type.lower(),
            }
        else:
            template.labels = template.labels | {_COSCHEDULING_LABEL: job.metadata.name}

    def is_member(self, pod: ObjectMeta, job: TFJob) -> bool:
        """Return whether a pod is a member of the job's PodGroup."""
        if self.admits:
            return pod.annotations.get(GROUP_NAME_ANNOTATION) == job.metadata.name
        return pod.labels.get(_COSCHEDULING_LABEL) == job.metadata.name

    def body(self, job: TFJob, owner: dict[str, Any], spec: PodGroupSpec, rules: SchedulingRules) -> dict[str, Any]:
        """Return a new PodGroup, named after the job and controlled by it, with the annotations that `rules` allow."""
        return {
            "apiVersion": self.pod_groups.api_version,
            "kind": self.pod_groups.kind,
            "metadata": {
                "name": job.metadata.name,
                "namespace": job.metadata.namespace,
                "labels": _labels(job),
                "annotations": rules.annotations_of(job),
                "ownerReferences": [owner],
            },
            "spec": {name: value for name, value in self._fields(spec).items() if value or name == "minMember"},
        }

    def spec(
        self, policy: SchedulingPolicy, min_member: int, min_resources: dict[str, str] | dict[str, str | int]
    ) -> PodGroupSpec:
        """Return the wanted spec of the PodGroup."""
        return PodGroupSpec(
            min_member=min_member,
            queue=policy.queue or "",
            priority_class_name=policy.priority_class or "",
            min_resources={**min_resources},
            schedule_timeout_seconds=policy.schedule_timeout_seconds or None,
        )

    def change(self, job: TFJob, current: PodGroup, wanted: PodGroupSpec, rules: SchedulingRules) -> dict[str, Any]:
        """Return the merge patch that brings an existing PodGroup to the wanted spec; empty if none is needed.

        Quantities are compared as numbers, for Volcano rewrites `1000m` to `1`. A queue that the job doesn't name is
        Volcano's choice. Annotations and labels of others stay.
        """
        old, new = self._fields(current.spec), self._fields(wanted)
        spec: dict[str, Any] = {name: new[name] or None for name in new if name in _COPIED and new[name] != old[name]}
        if new["minMember"] != old["minMember"]:
            spec["minMember"] = new["minMember"]
        if new.get("queue") and new["queue"] != old["queue"]:
            spec["queue"] = new["queue"]
        resources = _changed_quantities(current.spec.min_resources, wanted.min_resources)
        if resources:
            spec["minResources"] = resources
        metadata = {
            kind: changed
            for kind, changed in (
                ("labels", _missing(current.metadata.labels, _labels(job))),
                ("annotations", _missing(current.metadata.annotations, rules.annotations_of(job))),
            )
            if changed
        }
        return ({"metadata": metadata} if metadata else {}) | ({"spec": spec} if spec else {})

    def _fields(self, spec: PodGroupSpec) -> dict[str, Any]:
        common = {"minMember": spec.min_member, "minResources": spec.min_resources}
        if self.has_classes:
            return common | {"queue": spec.queue, "priorityClassName": spec.priority_class_name}
        return common | {"scheduleTimeoutSeconds": spec.schedule_timeout_seconds}


_COPIED = frozenset({"priorityClassName", "scheduleTimeoutSeconds"})


def gang_scheduler(name: str) -> GangScheduler | None:
    """Return the scheduler that `--gang-scheduler-name` stands for; None for "" and "none"."""
    if name.lower() in ("", "none"):
        return None
    if name.lower() == _VOLCANO:
        return GangScheduler(_VOLCANO, VOLCANO_POD_GROUPS, admits=True)
    return GangScheduler(name, COSCHEDULING_POD_GROUPS, admits=False)


class AllowedNames(msgspec.Struct, frozen=True, rename="camel"):
    """Names that jobs may use. A namespace in `namespaces` has its own list instead of `default`."""

    default: tuple[str, ...]
    namespaces: dict[str, tuple[str, ...]] = {}

    def of(self, namespace: str) -> tuple[str, ...]:
        """Return the names that jobs of a namespace may use."""
        return self.namespaces.get(namespace, self.default)


class SchedulingRules(msgspec.Struct, frozen=True, rename="camel"):
    """What PodGroups may have: by default every queue, every priority class except the system's, few annotations."""

    priority_classes: AllowedNames = AllowedNames((ANY,))
    queues: AllowedNames = AllowedNames((ANY,))
    annotations: AllowedNames = AllowedNames(_HARMLESS_ANNOTATIONS)

    def annotations_of(self, job: TFJob) -> dict[str, str]:
        """Return the job's annotations that its PodGroup gets, too."""
        allowed = self.annotations.of(job.metadata.namespace)
        return {
            name: value
            for name, value in job.metadata.annotations.items()
            if name not in _NOT_COPIED and _allows(allowed, name)
        }

    def problems(
        self, gang: GangScheduler, namespace: str, policy: SchedulingPolicy, current: PodGroupSpec | None
    ) -> Iterator[str]:
        """Yield the parts of the policy that are not allowed; `current` is the spec of the job's existing PodGroup.

        It keeps its existing values: they were allowed when the job started, or not checked yet.
        """
        if not gang.has_classes:
            return
        has = current or PodGroupSpec()
        wanted = gang.spec(policy, 0, {})
        name, allowed = wanted.priority_class_name, self.priority_classes.of(namespace)
        if name != has.priority_class_name and not _allows(allowed, name, but=_SYSTEM_PREFIX):
            yield _refusal("priorityClass", name, namespace, allowed, but=_SYSTEM_PREFIX)
        name, allowed = wanted.queue, self.queues.of(namespace)
        if name != has.queue and not _allows(allowed, name):
            yield _refusal("queue", name, namespace, allowed)


def _labels(job: TFJob) -> dict[str, str]:
    return {names.LABEL_OPERATOR_NAME: names.OPERATOR_NAME, names.LABEL_JOB_NAME: job.metadata.name}


def _missing(has: dict[str, str], should_have: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in should_have.items() if has.get(key) != value}


def _changed_quantities(old: dict[str, str | int], new: dict[str, str | int]) -> dict[str, str | int | None]:
    changed: dict[str, str | int | None] = {name: None for name in old if name not in new}
    for name, amount in new.items():
        if name not in old or not _same_quantity(old[name], amount):
            changed[name] = amount
    return changed


def _same_quantity(one: str | int, other: str | int) -> bool:
    if one == other:
        return True
    try:
        return parse_quantity(one) == parse_quantity(other)
    except ValueError:
        return False


def _allows(allowed: tuple[str, ...], name: str, *, but: str = "") -> bool:
    """Return whether a name is listed, or all are and it doesn't begin with `but`. The empty name is always allowed."""
    return not name or name in allowed or (ANY in allowed and not (but and name.startswith(but)))


def _refusal(field: str, name: str, namespace: str, allowed: tuple[str, ...], *, but: str = "") -> str:
    names = [f"any but {but}*" if one == ANY and but else one for one in allowed]
    listed = ", ".join(names[:_MAX_SHOWN_NAMES]) + (" and more" if len(names) > _MAX_SHOWN_NAMES else "")
    return f"{_POLICY}.{field}: {shown(name)} is not allowed in namespace {namespace}; allowed: {listed or 'none'}"
