"""Finds the changes that a migration from the Go operator (training-operator 1.9 or earlier) brings to one v1 TFJob.

Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tfoperator.api.conversion import check, misplaced_policies, move_policies, older_version
from tfoperator.api.defaults import default
from tfoperator.api.fields.limits import MANAGED_BY_OPERATOR
from tfoperator.api.fields.problems import Severity
from tfoperator.api.fields.structure import drop_wrong
from tfoperator.api.kueue.queues import QUEUE_LABEL, queue_name
from tfoperator.api.migration.findings import Effort, Finding
from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME, is_parameter_server
from tfoperator.api.replicas.templates import readable_spec
from tfoperator.api.v1.choices import RestartPolicy
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.job_conditions import final_condition, has_condition
from tfoperator.api.v1.types import ReplicaSpec, TFJob, decode_tfjob
from tfoperator.kube.views.objects import Pod

_SYSTEM_CLASS_PREFIX = "system-"
_ACTIVE_PHASES = ("Pending", "Running")


def job_findings(obj: dict[str, Any], pods: Sequence[Pod] | None, now: datetime) -> tuple[Finding, ...]:
    """Return how this operator treats the job differently from the Go operator, in the order of the job's fields.

    `obj` is the job as the API server, or a file, has it. For a job of an older version than v1, the only finding is
    that it must be converted. `pods` are the pods of the job, or None if they are not known. `now` is compared with the
    deadlines of the job.
    """
    version = older_version(obj)
    if version is not None:
        what = f"is {version}, which the Go operator for v1 does not run"
        return (Finding(Effort.ACTION, "apiVersion", what, "convert it: tfoperator convert FILE"),)
    findings = []
    misplaced = [f"spec.{name}" for name in misplaced_policies(obj)]
    for problem in check(obj)[1]:
        if problem.field in misplaced:
            todo = _how_to_move(obj) if problem.field == misplaced[0] else ""  # one command moves all
            findings.append(Finding(Effort.ACTION, problem.field, _MISPLACED, todo))
        elif problem.severity is Severity.ERROR:
            findings.append(Finding(Effort.ACTION, problem.field, problem.message, _FIX))
        else:
            findings.append(Finding(Effort.CHANGE, problem.field, problem.message))
    # The job as it will be when its policies have been moved.
    decoded = decode_tfjob(msgspec.json.encode(drop_wrong(move_policies(obj).obj, TFJob)))
    if decoded.decode_error:
        return tuple(findings)
    job = default(decoded)
    return (*findings, *_by_others(job)) if _is_others(job) else (*findings, *_of_job(job, pods, now))


_MISPLACED = (
    "has no effect here: this field belongs to spec.runPolicy, and API servers with tfoperator's CRD drop it from spec"
)


def _how_to_move(obj: dict[str, Any]) -> str:
    """Return the instruction to move a job's policies.

    A job from a cluster is changed there, any other job in its file.
    """
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("uid"):
        return "move the fields: tfoperator convert FILE"
    name, namespace = (shlex.quote(str(metadata.get(member))) for member in ("name", "namespace"))
    file = shlex.quote(f"{metadata.get('name')}.yaml")
    return (
        f"before you install the new CRD: kubectl get tfjobs.v1.kubeflow.org {name} -n {namespace} -o yaml | "
        f"tfoperator convert - > {file}; after that, and before you start tfoperator: kubectl apply --server-side "
        f"--force-conflicts -f {file}"
    )


_FIX = (
    "correct the job before the migration: if the job does not run yet, tfoperator fails it (TFJobInvalid); if the job "
    "runs, tfoperator does nothing for it until it is valid"
)


def _of_job(job: TFJob, pods: Sequence[Pod] | None, now: datetime) -> Iterator[Finding]:
    ended = _ended(job)
    if not ended:
        yield from _restarts(job, pods)
        yield from _deadline(job, now)
        yield from _sidecars(job)
    yield from _clean_up(job, pods, ended=ended)
    yield from _time_to_live(job, now)
    yield from _gang(job)
    if queue_name(job.metadata.labels) and not ended:
        message = (
            "Kueue's own integration for TFJobs manages this job, as with the Go operator; newer releases of Kueue "
            "have this integration off by default"
        )
        todo = (
            "to let tfoperator request quota from Kueue, start it with --kueue; docs/operate/kueue-handover.md "
            "has the steps for jobs that already run"
        )
        yield Finding(Effort.NOTE, f"metadata.labels[{QUEUE_LABEL}]", message, todo)
    if job.spec.enable_dynamic_worker and not ended and any(name in job.spec.tf_replica_specs for name in _CHIEFS):
        message = "the chief's TF_CONFIG contains the cluster; the Go operator gave the chief an empty cluster"
        yield Finding(Effort.CHANGE, "spec.enableDynamicWorker", message)
    if _is_running(job):
        names = "tfoperator adopts the job's pods by their owner and labels, and restarts none of them"
        yield Finding(Effort.NOTE, "status", names, "while no operator runs, don't delete the job or its pods")


_CHIEFS = ("Chief", "Master")


def _by_others(job: TFJob) -> Iterator[Finding]:
    message = (
        f"the job is managed by {job.spec.policy.managed_by}: tfoperator does nothing for it, like the Go operator"
    )
    yield Finding(Effort.NOTE, "spec.runPolicy.managedBy", message)


def _is_others(job: TFJob) -> bool:
    return (job.spec.policy.managed_by or MANAGED_BY_OPERATOR) != MANAGED_BY_OPERATOR


def _restarts(job: TFJob, pods: Sequence[Pod] | None) -> Iterator[Finding]:
    never = [name for name, replica in job.spec.tf_replica_specs.items()
             if replica is not None and replica.restart_policy in (RestartPolicy.NEVER, None)]  # fmt: skip
    if never:
        message = (
            f"after a pod of {'/'.join(never)} is deleted, evicted or lost with its node, tfoperator creates it "
            "again; the Go operator fails the job"
        )
        field = f"spec.tfReplicaSpecs[{never[0]}].restartPolicy"
        yield Finding(Effort.CHANGE, field, message)
    limit = job.spec.policy.backoff_limit
    if limit is None:
        return
    field = "spec.runPolicy.backoffLimit"
    so_far = _restarts_so_far(pods or ())
    if so_far > limit:
        message = (
            f"the job's containers were restarted {so_far} times, which is more than {limit}: the job will fail when "
            "tfoperator starts"
        )
        yield Finding(
            Effort.ACTION, field, message, "set a higher backoffLimit, or start tfoperator after the job has ended"
        )
        return
    message = (
        f"limits all replicas together to {limit} restarts after failures, also in new pods; the Go operator counts "
        "only restarts of containers in pods that still exist"
    )
    yield Finding(Effort.CHANGE, field, message, "set a higher number if the job has to survive more restarts")


def _restarts_so_far(pods: Sequence[Pod]) -> int:
    """Return how often containers were restarted in their pods.

    This operator counts these restarts when it takes a job over.
    """
    return sum(status.restart_count for pod in pods for status in pod.status.container_statuses)


def _deadline(job: TFJob, now: datetime) -> Iterator[Finding]:
    seconds = job.spec.policy.active_deadline_seconds
    if seconds is None:
        return
    field = "spec.runPolicy.activeDeadlineSeconds"
    start = job.status.start_time
    if start is not None and _is_running(job) and (now - start).total_seconds() >= seconds:
        age = int((now - start).total_seconds())
        message = f"passed {age - seconds} s ago: the job will fail when tfoperator starts"
        yield Finding(
            Effort.ACTION, field, message, "if the job has to continue, set a higher value or remove the field"
        )
        return
    message = (
        f"the job fails {seconds} s after its start; the Go operator checks this deadline only when something else "
        "happens to the job"
    )
    yield Finding(Effort.CHANGE, field, message)


def _sidecars(job: TFJob) -> Iterator[Finding]:
    """Yield one finding that names the containers other than `tensorflow`, for all replica types.

    The path of the finding belongs to the first replica type with such containers. Native sidecars, which are init
    containers, end with their pod under both operators.
    """
    beside = {
        name: [other for other in map(_name_of, _containers(replica)) if other != DEFAULT_CONTAINER_NAME]
        for name, replica in job.spec.tf_replica_specs.items()
        if replica is not None
    }
    named = [f"{name}: {', '.join(containers)}" for name, containers in beside.items() if containers]
    if named:
        first = next(name for name, containers in beside.items() if containers)
        message = (
            f"when {DEFAULT_CONTAINER_NAME} ends, tfoperator also ends the other containers of its pod "
            f"({'; '.join(named)}), and only the exit code of {DEFAULT_CONTAINER_NAME} decides; with the Go operator "
            "the replica runs until all its containers have ended"
        )
        field = f"spec.tfReplicaSpecs[{first}].template.spec.containers"
        yield Finding(
            Effort.CHANGE, field, message, "if such a container has work to finish, move it into a job of its own"
        )


def _containers(replica: ReplicaSpec) -> Sequence[Any]:
    containers = readable_spec(replica.template).get("containers")
    return containers if isinstance(containers, list) else ()


def _name_of(container: Any) -> str:
    return str(container.get("name") or "") if isinstance(container, dict) else ""


def _clean_up(job: TFJob, pods: Sequence[Pod] | None, *, ended: bool) -> Iterator[Finding]:
    if job.spec.policy.clean_pod_policy:
        return
    field = "spec.runPolicy.cleanPodPolicy"
    keep = (
        "set cleanPodPolicy: None in the job, or --default-clean-pod-policy=None for all jobs, to keep the behaviour "
        "of the Go operator"
    )
    if not ended:
        message = (
            "is not set: after a failure tfoperator stops all pods that still run, and after a success the "
            "parameter servers; the Go operator leaves them running"
        )
        yield Finding(Effort.CHANGE, field, message, keep)
        return
    let_go = _let_go(pods or (), failed=has_condition(job, ConditionType.FAILED))
    if let_go:
        named = ", ".join(let_go[:5]) + (" ..." if len(let_go) > 5 else "")
        message = (
            f"is not set, and the job has ended, but {len(let_go)} of its pods still run ({named}): tfoperator "
            "will stop these pods"
        )
        yield Finding(Effort.ACTION, field, message, keep)


def _let_go(pods: Sequence[Pod], *, failed: bool) -> list[str]:
    """Return the names of the pods that this operator stops when it takes over an ended job.

    After a failure, these are all active pods. After a success, they are parameter servers and pods that have not
    begun.
    """
    return sorted(
        pod.metadata.name
        for pod in pods
        if pod.status.phase in _ACTIVE_PHASES
        and (failed or pod.status.phase == "Pending" or is_parameter_server(pod.metadata.labels))
    )


def _time_to_live(job: TFJob, now: datetime) -> Iterator[Finding]:
    seconds = job.spec.policy.ttl_seconds_after_finished
    completed = job.status.completion_time
    if seconds is None or completed is None or not _ended(job):
        return
    if (now - completed).total_seconds() >= seconds:
        message = "has passed: when tfoperator starts, it will delete the job, its pods and their logs"
        todo = "save the logs that you need, or remove the field"
        yield Finding(Effort.ACTION, "spec.runPolicy.ttlSecondsAfterFinished", message, todo)


def _gang(job: TFJob) -> Iterator[Finding]:
    scheduling = job.spec.policy.scheduling_policy
    if scheduling is None or _ended(job):
        return
    path = "spec.runPolicy.schedulingPolicy"
    wanted = scheduling.priority_class or ""
    if wanted.startswith(_SYSTEM_CLASS_PREFIX):
        message = f"{wanted} is a priority class of the system, and a job's PodGroup must not use such a class"
        yield Finding(Effort.ACTION, f"{path}.priorityClass", message, "choose another class")
    message = "has an effect only if tfoperator has --gang-scheduler-name, as with the Go operator"
    yield Finding(Effort.NOTE, path, message, "start tfoperator with the scheduler's name: docs/gang.md")


def _ended(job: TFJob) -> bool:
    return final_condition(job) is not None


def _is_running(job: TFJob) -> bool:
    running = (ConditionType.RUNNING, ConditionType.RESTARTING)
    return not _ended(job) and any(has_condition(job, condition) for condition in running)


def owned(pods: Sequence[Pod]) -> Mapping[str, list[Pod]]:
    """Return pods by the UID of the object that controls them; pods without a controller are left out."""
    pods_by_owner: dict[str, list[Pod]] = {}
    for pod in pods:
        if (owner := pod.metadata.controller) is not None:
            pods_by_owner.setdefault(owner.uid, []).append(pod)
    return pods_by_owner
