"""Computes a job's request to Kueue, and the values that the job's pods get from the answer. Pure.

The job's own spec stays as it is. The plan is made from a copy of the job. The copy has the admitted number of
replicas, and its templates have the values of the admission: labels, annotations, node selectors and tolerations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tfoperator.api.kueue.queues import (
    ADOPTED,
    JOB_UID_LABEL,
    MAX_EXECUTION_LABEL,
    POD_SET_LABEL,
    POD_SETS_ANNOTATION,
    WORKLOAD_ANNOTATION,
    queue_name,
)
from tfoperator.api.kueue.workloads import WORKLOADS, PodSet, Workload
from tfoperator.api.replicas.data_service import DATA_SERVICE_POD_SET
from tfoperator.api.replicas.names import LABEL_REPLICA_INDEX
from tfoperator.api.replicas.parameter_server import parameter_server_template
from tfoperator.api.replicas.templates import is_absent, template_dict
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.parts.run_policy import SchedulingPolicy
from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.controller.kueue.objects import IN_USE, Flavor
from tfoperator.controller.pods.bodies import owner_reference
from tfoperator.controller.pods.data_service import data_service_template
from tfoperator.controller.pods.gang import GANG_ORDER

_MAX_NAME = 253
_HASH = 5
_TOPOLOGY = "kueue.x-k8s.io/podset-"
_TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
_PROVISIONING_PREFIX = "provreq.kueue.x-k8s.io/"
_MAX_SECONDS = (1 << 31) - 1
_NO_PODS = PodSet(count=0)

_encode = msgspec.json.Encoder(order="sorted").encode


class PlacementError(ValueError):
    """Raised if pods can't get the values with which they were admitted.

    The message names the label, annotation or node selector that would have two values.
    """


def workload_name(job: TFJob) -> str:
    """Return the name of the job's Workload.

    Kueue's own TFJob integration uses the same name. So the operator and this integration can't both create a Workload
    for a job.
    """
    meta = job.metadata
    parts = (TFJOBS.kind, TFJOBS.group, meta.name, meta.uid)
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    return f"{f'{TFJOBS.kind.lower()}-{meta.name}'[: _MAX_NAME - 1 - _HASH]}-{digest[:_HASH]}"


def max_execution_seconds(job: TFJob) -> int | None:
    """Return for how many seconds the job may be admitted, from its label `MAX_EXECUTION_LABEL`.

    After this time, Kueue deactivates the Workload.

    The result is None without the label, or if the label's value is not a whole number of seconds from 1 to 2**31 - 1.
    """
    text = job.metadata.labels.get(MAX_EXECUTION_LABEL, "")
    seconds = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_SECONDS)) else 0
    return seconds if 0 < seconds <= _MAX_SECONDS else None


def pod_sets(job: TFJob, default_ps_image: str) -> list[dict[str, Any]]:
    """Return a pod set for each replica type, in Kueue's order, and then a pod set for the data service, if any.

    Raises msgspec.ValidationError, ValueError if a template or an annotation of it can't be read.
    """
    made = []
    for kind in GANG_ORDER:
        spec = job.spec.tf_replica_specs.get(kind)
        if spec is None:
            continue
        template = template_dict(spec.template)
        if not template:
            template = parameter_server_template(default_ps_image)
        pod_set = _pod_set(kind.lower(), spec.desired, template)
        least = _least_workers(job) if kind is ReplicaType.WORKER else None
        made.append(pod_set if least is None else pod_set | {"minCount": least})
    if job.spec.data_service is not None:
        template = template_dict(data_service_template(job))
        made.append(_pod_set(DATA_SERVICE_POD_SET, job.spec.data_service.workers + 1, template))
    return made


def _pod_set(name: str, count: int, template: dict[str, Any]) -> dict[str, Any]:
    metadata, pod = template.get("metadata") or {}, template.get("spec") or {}
    kept = {member: metadata[member] for member in ("labels", "annotations") if metadata.get(member)}
    for containers in ("containers", "initContainers"):
        if pod.get(containers):
            pod[containers] = [_without_doubles(container) for container in pod[containers]]
    return {
        "name": name,
        "count": count,
        "template": {"metadata": kept, "spec": pod},
        "topologyRequest": _topology(metadata.get("annotations") or {}),
    }


def _without_doubles(container: dict[str, Any]) -> dict[str, Any]:
    """Return the container with the last variable of each name: a Workload's schema refuses duplicates."""
    variables = container.get("env")
    if not variables:
        return container
    return container | {"env": list({variable.get("name"): variable for variable in variables}.values())}


def _topology(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the topology request from a template's annotations: how near to each other the pods must or should run.

    Raises ValueError if the size of a slice is not a number.
    """
    wish: dict[str, Any] = {"podIndexLabel": LABEL_REPLICA_INDEX}
    for level in ("required", "preferred"):
        if value := annotations.get(f"{_TOPOLOGY}{level}-topology"):
            wish[level] = value
            if group := annotations.get(f"{_TOPOLOGY}group-name"):
                wish["podSetGroupName"] = group
            break
    else:
        if value := annotations.get(f"{_TOPOLOGY}unconstrained-topology"):
            wish["unconstrained"] = value.lower() in ("true", "t", "1")
    slices, size = (annotations.get(f"{_TOPOLOGY}slice-{name}") for name in ("required-topology", "size"))
    if slices and size:
        wish |= {"podSetSliceRequiredTopology": slices, "podSetSliceSize": int(size)}
    return wish


def _least_workers(job: TFJob) -> int | None:
    """Return the minimum number of workers that a job accepts; None if it needs the number that it requests.

    For an elastic job this is `minReplicas`; with dynamic workers, it is `minAvailable` minus the number of all other
    replicas.
    """
    if job.spec.elastic_policy is not None:
        spec, least = job.spec.tf_replica_specs.get(ReplicaType.WORKER), job.spec.elastic_policy.least
        return least if spec is not None and least < spec.desired else None
    policy = job.spec.policy.scheduling_policy or SchedulingPolicy()
    if not job.spec.enable_dynamic_worker or policy.min_available is None:
        return None
    sizes = {kind: spec.desired for kind, spec in job.spec.tf_replica_specs.items() if spec is not None}
    workers = sizes.pop(ReplicaType.WORKER, 0)
    least = max(policy.min_available - sum(sizes.values()), 1)
    return least if least < workers else None


def mark_of(job: TFJob, sets: list[dict[str, Any]], *, adopted: bool = False) -> str:
    """Return a hash of the job's pod sets, the value of `POD_SETS_ANNOTATION`.

    If the hash of the job's present pod sets differs from the annotation, the job has changed.

    The stored pod sets can't be compared directly, because an API server adds defaults to them. The hash does not
    depend on two parts that may change while the job keeps its quota: the number of workers of an elastic job, and the
    default template of parameter servers, which requests no resources. An option or a new release of the operator may
    change this template.

    `adopted` is true for a Workload that Kueue's own TFJob integration has created and an administrator has given to
    the operator: then the value begins with `ADOPTED`, before the hash.
    """
    if job.spec.elastic_policy is not None:
        workers = ReplicaType.WORKER.lower()
        sets = [pod_set if pod_set["name"] != workers else pod_set | {"count": 0, "minCount": 0} for pod_set in sets]
    servers = job.spec.tf_replica_specs.get(ReplicaType.PS)
    if servers is not None and is_absent(servers.template):
        ps = ReplicaType.PS.lower()
        sets = [pod_set if pod_set["name"] != ps else pod_set | {"template": {}} for pod_set in sets]
    digest = hashlib.sha256(_encode(sets)).hexdigest()[:16]
    return f"{ADOPTED}-{digest}" if adopted else digest


def workload_body(job: TFJob, sets: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the job's Workload, without its priority."""
    meta = job.metadata
    spec: dict[str, Any] = {"podSets": sets, "queueName": queue_name(meta.labels)}
    if (seconds := max_execution_seconds(job)) is not None:
        spec["maximumExecutionTimeSeconds"] = seconds
    annotations = {key: value for key, value in meta.annotations.items() if key.startswith(_PROVISIONING_PREFIX)}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": workload_name(job),
            "namespace": meta.namespace,
            "labels": {JOB_UID_LABEL: meta.uid},
            "annotations": {**annotations, POD_SETS_ANNOTATION: mark_of(job, sets)},
            "finalizers": [IN_USE],
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }


class Placement(msgspec.Struct):
    """The number of pods of a pod set, and the values that these pods get.

    The values must not contradict the template of the pods.
    """

    count: int
    labels: dict[str, str]
    annotations: dict[str, str]
    node_selector: dict[str, str]
    tolerations: list[dict[str, Any]]
    gated: bool = False
    """Whether the pods wait for Kueue to choose their nodes by a topology."""

    def add(self, what: str, has: dict[str, str], more: Mapping[str, str]) -> None:
        """Add the members of `more` to `has`. Raises PlacementError if a member already has another value.

        `has` is a mapping of this object or of a template. `what` names the kind of the members: `label`, for example.
        """
        for key, value in more.items():
            if has.setdefault(key, value) != value:
                raise PlacementError(f"{what} {key} would need both the value {has[key]} and the value {value}")


def admitted_count(asked: PodSet, given: int | None) -> int:
    """Return how many replicas the job may have: fewer than requested only if the pod set has a `minCount`.

    Without `minCount`, Kueue's number `given` is ignored: it does not include replicas that had ended before the
    admission, but these replicas remain part of the job.
    """
    return asked.count if given is None or asked.min_count is None else given


def placements(workload: Workload, flavors: Mapping[str, Flavor]) -> dict[str, Placement] | str:
    """Return the values with which each pod set was admitted; if a flavor isn't known, return the flavor's name.

    The keys of the result are the names of the pod sets. The result is {} for a Workload that isn't admitted. Raises
    PlacementError if the admission has two values for the same label, annotation or node selector.
    """
    admission = workload.status.admission
    if admission is None:
        return {}
    asked = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets}
    places: dict[str, Placement] = {}
    for assignment in admission.pod_set_assignments:
        labels = {
            POD_SET_LABEL: assignment.name,
            "kueue.x-k8s.io/local-queue-name": workload.spec.queue_name,
            "kueue.x-k8s.io/cluster-queue-name": admission.cluster_queue,
        }
        # A queue's name may be longer than a label's value.
        labels = {key: value for key, value in labels.items() if len(value) <= 63}
        count = admitted_count(asked.get(assignment.name, _NO_PODS), assignment.count)
        place = Placement(count, labels, {WORKLOAD_ANNOTATION: workload.metadata.name}, {}, [])
        place.gated = assignment.topology_assignment is not None
        for name in dict.fromkeys(assignment.flavors.values()):
            if (flavor := flavors.get(name)) is None:
                return name
            place.add("node selector", place.node_selector, flavor.spec.node_labels)
            place.tolerations += flavor.spec.tolerations
        for update in (each for check in workload.status.admission_checks for each in check.pod_set_updates):
            if update.name == assignment.name:
                place.add("label", place.labels, update.labels)
                place.add("annotation", place.annotations, update.annotations)
                place.add("node selector", place.node_selector, update.node_selector)
                place.tolerations += update.tolerations
        places[assignment.name] = place
    return places


def admitted_job(job: TFJob, found: Mapping[str, Placement], default_ps_image: str) -> TFJob:
    """Return a copy of the job with the admitted numbers of replicas; its templates have the values of the admission.

    `found` is the result of `placements`. Raises PlacementError if a template has a different value for a label, an
    annotation or a node selector.
    """
    specs = dict(job.spec.tf_replica_specs)
    for kind, spec in specs.items():
        place = found.get(str(kind).lower())
        if spec is None or place is None:
            continue
        template = template_dict(spec.template) or parameter_server_template(default_ps_image)
        # At most the number in the spec: if a user has reduced this number, the job continues with fewer replicas
        # until Kueue admits its new Workload.
        size = min(place.count, spec.desired)
        specs[kind] = msgspec.structs.replace(spec, replicas=size, template=_placed(template, place))
    data_service, place = job.spec.data_service, found.get(DATA_SERVICE_POD_SET)
    if data_service is not None and place is not None:
        # `job` still has the original templates, without the values that were admitted for the replicas' own pods.
        placed = _placed(template_dict(data_service_template(job)), place)
        workers = max(min(place.count - 1, data_service.workers), 1)
        data_service = msgspec.structs.replace(data_service, workers=workers, template=placed)
    changed = msgspec.structs.replace(job.spec, tf_replica_specs=specs, data_service=data_service)
    return msgspec.structs.replace(job, spec=changed)


def _placed(template: dict[str, Any], place: Placement) -> msgspec.Raw:
    """Return a template with the values with which its pods were admitted.

    Raises PlacementError if the template has a different value for a label, an annotation or a node selector.
    """
    pod, metadata = template.setdefault("spec", {}), template.get("metadata") or {}
    template["metadata"] = metadata
    for what, owner, member, more in (
        ("label", metadata, "labels", place.labels),
        ("annotation", metadata, "annotations", place.annotations),
        ("node selector", pod, "nodeSelector", place.node_selector),
    ):
        owner[member] = owner.get(member) or {}
        place.add(what, owner[member], more)
    if place.gated:
        _request_topology(metadata["annotations"], pod)
    pod["tolerations"] = _joined(pod.get("tolerations") or (), place.tolerations)
    return msgspec.Raw(msgspec.json.encode(template))


def _request_topology(annotations: dict[str, str], pod: dict[str, Any]) -> None:
    """Add the annotation and the scheduling gate with which Kueue chooses a node before the pod is scheduled."""
    if not any(f"{_TOPOLOGY}{level}-topology" in annotations for level in ("required", "preferred", "unconstrained")):
        annotations[f"{_TOPOLOGY}unconstrained-topology"] = "true"
    pod["schedulingGates"] = _joined(pod.get("schedulingGates") or (), [{"name": _TOPOLOGY_GATE}])


def _joined(first: Iterable[dict[str, Any]], more: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    joined = list(first)
    joined += [item for item in more if item not in joined]
    return joined
