"""Gang schedulers and their PodGroups: which resource, how pods become members, and what of a PodGroup has to change.

Two schedulers are known, as in the Go operator: Volcano, and every scheduler built with the coscheduling plugin of
Kubernetes' scheduler-plugins. Each has a PodGroup resource of its own, and recognises a group's pods in its own way.

The operator makes PodGroups with its own rights. A quota of pods by priority class, or an admission policy on pods,
never sees what they name, so that the operator itself has to ask whether the job's namespace may have it: an
administrator says which priority classes and queues that may be.
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
"""Annotations that say something about the job's own manifest, which is wrong of any other object."""

ANY = "*"
"""In a list of names: every name, but for a system class."""

_SYSTEM = "system-"
"""How Kubernetes' own priority classes begin, whose pods push out everything else."""

_POLICY = "spec.runPolicy.schedulingPolicy"
_SHOWN = 10


class PodGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a PodGroup asks for, of either kind."""

    min_member: int = 0
    queue: str = ""
    priority_class_name: str = ""
    min_resources: dict[str, str | int] = {}
    schedule_timeout_seconds: int | None = None


class PodGroupCondition(msgspec.Struct, frozen=True):
    """One condition of a Volcano PodGroup. Its times are left out: they change every minute, and nobody needs them."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PodGroupStatus(msgspec.Struct, frozen=True):
    """What a scheduler says about a PodGroup."""

    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()


class PodGroup(HasMetadata, frozen=True):
    """A PodGroup of either kind, trimmed; with all its annotations."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


decode_pod_group = msgspec.json.Decoder(PodGroup).decode


class GangScheduler(msgspec.Struct, frozen=True):
    """One gang scheduler.

    `name` is what its pods have as schedulerName. `admits` says that it decides by the PodGroup alone whether the job
    may have pods yet, so they are not created before.
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
        """Whether a pod is a member of the job's PodGroup."""
        if self.admits:
            return pod.annotations.get(GROUP_NAME_ANNOTATION) == job.metadata.name
        return pod.labels.get(_COSCHEDULING_LABEL) == job.metadata.name

    def body(self, job: TFJob, owner: dict[str, Any], spec: PodGroupSpec) -> dict[str, Any]:
        """A new PodGroup, named after the job and controlled by it."""
        return {
            "apiVersion": self.pod_groups.api_version,
            "kind": self.pod_groups.kind,
            "metadata": {
                "name": job.metadata.name,
                "namespace": job.metadata.namespace,
                "labels": _labels(job),
                "annotations": _annotations(job),
                "ownerReferences": [owner],
            },
            "spec": {name: value for name, value in self._fields(spec).items() if value or name == "minMember"},
        }

    def spec(
        self, policy: SchedulingPolicy, min_member: int, min_resources: dict[str, str] | dict[str, str | int]
    ) -> PodGroupSpec:
        """What the PodGroup should ask for."""
        return PodGroupSpec(
            min_member=min_member,
            queue=policy.queue or "",
            priority_class_name=policy.priority_class or "",
            min_resources={**min_resources},
            schedule_timeout_seconds=policy.schedule_timeout_seconds or None,
        )

    def change(self, job: TFJob, current: PodGroup, wanted: PodGroupSpec) -> dict[str, Any]:
        """The merge patch that makes an existing PodGroup what is wanted; empty if it is that already.

        Quantities are compared as numbers, for Volcano rewrites `1000m` to `1`. A queue that the job doesn't name is
        Volcano's choice. Annotations and labels of others stay.
        """
        old, new = self._fields(current.spec), self._fields(wanted)
        spec: dict[str, Any] = {name: new[name] or None for name in new if name in _PLAIN and new[name] != old[name]}
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
                ("annotations", _missing(current.metadata.annotations, _annotations(job))),
            )
            if changed
        }
        return ({"metadata": metadata} if metadata else {}) | ({"spec": spec} if spec else {})

    def _fields(self, spec: PodGroupSpec) -> dict[str, Any]:
        common = {"minMember": spec.min_member, "minResources": spec.min_resources}
        if self.has_classes:
            return common | {"queue": spec.queue, "priorityClassName": spec.priority_class_name}
        return common | {"scheduleTimeoutSeconds": spec.schedule_timeout_seconds}


_PLAIN = frozenset({"priorityClassName", "scheduleTimeoutSeconds"})


def gang_scheduler(name: str) -> GangScheduler | None:
    """The scheduler that `--gang-scheduler-name` stands for; None for "" and "none"."""
    if name.lower() in ("", "none"):
        return None
    if name.lower() == _VOLCANO:
        return GangScheduler(_VOLCANO, VOLCANO_POD_GROUPS, admits=True)
    return GangScheduler(name, COSCHEDULING_POD_GROUPS, admits=False)


class AllowedNames(msgspec.Struct, frozen=True, rename="camel"):
    """Names that jobs may use. A namespace in `namespaces` has that list of its own, instead of `default`."""

    default: tuple[str, ...]
    namespaces: dict[str, tuple[str, ...]] = {}

    def of(self, namespace: str) -> tuple[str, ...]:
        """The names that jobs of a namespace may use."""
        return self.namespaces.get(namespace, self.default)


class SchedulingRules(msgspec.Struct, frozen=True, rename="camel"):
    """What PodGroups may name: by default every queue, and every priority class that is not the system's."""

    priority_classes: AllowedNames = AllowedNames((ANY,))
    queues: AllowedNames = AllowedNames((ANY,))

    def problems(
        self, gang: GangScheduler, namespace: str, policy: SchedulingPolicy, current: PodGroupSpec | None
    ) -> Iterator[str]:
        """What of the policy a PodGroup may not be given; `current` is what the job's PodGroup asks for already.

        What it has already, it keeps: it was allowed when the job started, or the operator did not ask yet.
        """
        if not gang.has_classes:
            return
        has = current or PodGroupSpec()
        wanted = gang.spec(policy, 0, {})
        name, allowed = wanted.priority_class_name, self.priority_classes.of(namespace)
        if name != has.priority_class_name and not _allows(allowed, name, but=_SYSTEM):
            yield _refusal("priorityClass", name, namespace, allowed, but=_SYSTEM)
        name, allowed = wanted.queue, self.queues.of(namespace)
        if name != has.queue and not _allows(allowed, name):
            yield _refusal("queue", name, namespace, allowed)


def _labels(job: TFJob) -> dict[str, str]:
    return {names.LABEL_OPERATOR_NAME: names.OPERATOR_NAME, names.LABEL_JOB_NAME: job.metadata.name}


def _annotations(job: TFJob) -> dict[str, str]:
    return {key: value for key, value in job.metadata.annotations.items() if key not in _NOT_COPIED}


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
    """Whether a name is listed, or any is that doesn't begin with `but`. To name nothing is always allowed."""
    return not name or name in allowed or (ANY in allowed and not (but and name.startswith(but)))


def _refusal(field: str, name: str, namespace: str, allowed: tuple[str, ...], *, but: str = "") -> str:
    names = [f"any but {but}*" if one == ANY and but else one for one in allowed]
    listed = ", ".join(names[:_SHOWN]) + (" and more" if len(names) > _SHOWN else "")
    return f"{_POLICY}.{field}: {shown(name)} is not allowed in namespace {namespace}; allowed: {listed or 'none'}"
