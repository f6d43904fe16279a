"""Describes gang schedulers and their PodGroups: the resource, the membership of pods, and the changes to a PodGroup.

The operator supports three kinds: Volcano; every scheduler that is built with the coscheduling plugin of Kubernetes'
scheduler-plugins; and Kubernetes' own scheduler (1.37). The Go operator supports the first two kinds. Each kind has a
PodGroup resource of its own, and recognises the pods of a group in a different manner.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from tfoperator.api.fields.quantity import parse_quantity
from tfoperator.api.replicas.names import job_labels
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.parts.run_policy import SchedulingPolicy
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.pods.pod_groups import PodGroup, PodGroupSpec, is_kept, short_name
from tfoperator.controller.pods.template import Template
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.views.kept import GROUP_NAME_ANNOTATION
from tfoperator.kube.views.objects import Pod

VOLCANO_POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
COSCHEDULING_POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")

KUBERNETES_POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups")

GANG_ORDER = (ReplicaType.CHIEF, ReplicaType.MASTER, ReplicaType.PS, ReplicaType.WORKER, ReplicaType.EVALUATOR)
"""The replica types in the order in which schedulers place them: Volcano and Kueue use this order."""

_DEFAULT_SCHEDULER = "default-scheduler"
"""The name of kube-scheduler, unless an administrator has given it another name."""

_VOLCANO_TASK_ANNOTATION = "volcano.sh/task-spec"
_COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"


class GangKind(StrEnum):
    """The kinds of gang schedulers, by the names of their components in manifests/."""

    VOLCANO = "volcano"
    COSCHEDULING = "scheduler-plugins"
    KUBERNETES = "kubernetes-gangs"


class GangScheduler(msgspec.Struct, frozen=True):
    """One gang scheduler. `name` is the schedulerName of the pods that it schedules."""

    name: str
    pod_groups: Resource
    kind: GangKind

    @property
    def admits(self) -> bool:
        """Whether this scheduler admits a PodGroup before the job has pods, as Volcano does.

        With such a scheduler, the operator creates the pods only after the PodGroup was admitted.
        """
        return self.kind is GangKind.VOLCANO

    @property
    def is_kubernetes(self) -> bool:
        """Whether this is Kubernetes' own scheduler.

        Its PodGroups have no field for resources. If such a PodGroup is deleted, it stays until its pods have ended.
        """
        return self.kind is GangKind.KUBERNETES

    def schedule(self, template: Template) -> None:
        """Let this scheduler place the template's pods. If the template already names a scheduler, that name stays."""
        if not template.scheduler_name:
            template.spec = template.spec | {"schedulerName": self.name}

    def add_member(self, template: Template, job: TFJob, replica_type: str) -> None:
        """Make the template's pods members of the job's PodGroup, which this scheduler places.

        For Volcano, `replica_type` is the name of the pods' task.
        """
        self.schedule(template)
        if self.is_kubernetes:
            template.spec = template.spec | {"schedulingGroup": {"podGroupName": job.metadata.name}}
        elif self.admits:
            template.annotations = template.annotations | {
                GROUP_NAME_ANNOTATION: job.metadata.name,
                _VOLCANO_TASK_ANNOTATION: replica_type.lower(),
            }
        else:
            template.labels = template.labels | {_COSCHEDULING_LABEL: job.metadata.name}

    def is_member(self, pod: Pod, job: TFJob) -> bool:
        """Return whether a pod is a member of the job's PodGroup."""
        if self.is_kubernetes:
            group = (pod.spec.scheduling_group or {}).get("podGroupName")
        elif self.admits:
            group = pod.metadata.annotations.get(GROUP_NAME_ANNOTATION)
        else:
            group = pod.metadata.labels.get(_COSCHEDULING_LABEL)
        return group == job.metadata.name

    def body(
        self, job: TFJob, owner: dict[str, Any], spec: PodGroupSpec, annotations: dict[str, str]
    ) -> dict[str, Any]:
        """Return a new PodGroup that is named after the job and has the job as its controller."""
        fields = self._fields(spec)
        if self.is_kubernetes:
            fields |= {
                "priorityClassName": spec.priority_class_name,
                "disruptionMode": spec.disruption_mode,
                "schedulingConstraints": spec.scheduling_constraints,
            }
        return {
            "apiVersion": self.pod_groups.api_version,
            "kind": self.pod_groups.kind,
            "metadata": {
                "name": job.metadata.name,
                "namespace": job.metadata.namespace,
                "labels": job_labels(job.metadata.name),
                "annotations": annotations,
                "ownerReferences": [owner],
            },
            "spec": {name: value for name, value in fields.items() if value or name == "minMember"},
        }

    def spec(
        self, policy: SchedulingPolicy, min_member: int, min_resources: Mapping[str, str | int] | None
    ) -> PodGroupSpec:
        """Return the wanted spec of the PodGroup.

        With `min_resources` None the PodGroup keeps its present resources.
        """
        return PodGroupSpec(
            min_member=min_member,
            queue=(policy.queue or "") if self.admits else "",
            priority_class_name="" if self.kind is GangKind.COSCHEDULING else policy.priority_class or "",
            min_resources=None if min_resources is None else {**min_resources},
            schedule_timeout_seconds=policy.schedule_timeout_seconds or None,
        )

    def change(
        self, job: TFJob, current: PodGroup, wanted: PodGroupSpec, annotations: dict[str, str]
    ) -> dict[str, Any]:
        """Return the merge patch that changes an existing PodGroup to the wanted spec.

        The patch is empty if no change is needed. Quantities are compared as numbers, because Volcano rewrites `1000m`
        to `1`. If the job names no queue, the PodGroup keeps the queue that Volcano has chosen. Annotations and labels
        that others have set stay. The module `pod_groups` has the rule for a field that is too large to be cached.
        """
        old, new = self._fields(current.spec), self._fields(wanted)
        spec: dict[str, Any] = {
            name: new[name] or None for name in new if name in _COPIED and _as_kept(new[name]) != old[name]
        }
        if new.get("minMember") != old.get("minMember"):
            spec["minMember"] = new["minMember"]
        if new.get("queue") and _as_kept(new["queue"]) != old["queue"]:
            spec["queue"] = new["queue"]
        resources = new.get("minResources")
        if resources is not None:
            spec |= _changed_resources(old["minResources"], resources)
        metadata = {
            kind: changed
            for kind, changed in (
                ("labels", _missing(current.metadata.labels, job_labels(job.metadata.name))),
                ("annotations", current.lacks(annotations)),
            )
            if changed
        }
        return ({"metadata": metadata} if metadata else {}) | ({"spec": spec} if spec else {})

    def _fields(self, spec: PodGroupSpec) -> dict[str, Any]:
        if self.is_kubernetes:
            return {"schedulingPolicy": {"gang": {"minCount": max(1, spec.members)}}}
        common = {"minMember": spec.min_member, "minResources": spec.min_resources}
        if self.admits:
            return common | {"queue": spec.queue, "priorityClassName": spec.priority_class_name}
        return common | {"scheduleTimeoutSeconds": spec.schedule_timeout_seconds}


_COPIED = frozenset({"priorityClassName", "scheduleTimeoutSeconds", "schedulingPolicy"})


def gang_scheduler(name: str) -> GangScheduler | None:
    """Return the scheduler that `--gang-scheduler-name` names. For "" and "none" return None.

    Any name except `volcano` and `kubernetes` is the schedulerName of a scheduler with the coscheduling plugin.
    """
    if name.lower() in ("", "none"):
        return None
    if name.lower() == GangKind.VOLCANO:
        return GangScheduler(name.lower(), VOLCANO_POD_GROUPS, GangKind.VOLCANO)
    if name.lower() == "kubernetes":
        return GangScheduler(_DEFAULT_SCHEDULER, KUBERNETES_POD_GROUPS, GangKind.KUBERNETES)
    return GangScheduler(name, COSCHEDULING_POD_GROUPS, GangKind.COSCHEDULING)


def _missing(has: dict[str, str], should_have: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in should_have.items() if has.get(key) != value}


def _as_kept(value: Any) -> Any:
    """Return a wanted value in the form in which a cache would store it."""
    return short_name(value) if isinstance(value, str) else value


def _changed_resources(old: dict[str, str | int] | None, new: dict[str, str | int]) -> dict[str, Any]:
    """Return the change of `minResources`, as part of a merge patch of the spec.

    The result is empty if no change is needed. `old` is None if the PodGroup's resources are too many to be cached.
    Then the patch removes all of them, because a patch of single resources would have to name each resource. The next
    sync sets the resources that the job wants. If the job's wanted resources are too many to be cached too, the
    PodGroup's resources stay as they are.
    """
    if old is None:
        return {"minResources": None} if is_kept(new) else {}
    changed = _changed_quantities(old, new)
    return {"minResources": changed} if changed else {}


def _changed_quantities(old: dict[str, str | int], new: dict[str, str | int]) -> dict[str, str | int | None]:
    changed: dict[str, str | int | None] = {name: None for name in old if name not in new}
    for name, amount in new.items():
        if name not in old or not _same_quantity(old[name], amount):
            changed[name] = amount
    return changed


def _same_quantity(quantity: str | int, other_quantity: str | int) -> bool:
    if quantity == other_quantity:
        return True
    try:
        return parse_quantity(quantity) == parse_quantity(other_quantity)
    except ValueError:
        return False
