"""The rules over several fields of a spec: fields that contradict each other, or make another field useless. Pure.

Each function yields the problems of one rule, with the path of the field to change. If API servers also check a rule,
the rule is declared only once (`Contradiction`). Bounds of a single field are in its declaration (`api.v1`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tfoperator.api.fields.field import declared
from tfoperator.api.fields.int_or_percent import IntOrPercent
from tfoperator.api.fields.limits import INT32_MAX
from tfoperator.api.fields.problems import Problem, member
from tfoperator.api.replicas.names import parse_replica_type
from tfoperator.api.replicas.templates import own_host_names, restarts_in_pod
from tfoperator.api.v1.choices import (
    CleanPodPolicy,
    Network,
    OnStall,
    ReplicaType,
    RestartMode,
    RestartPolicy,
    RestartScope,
    SuccessPolicy,
)
from tfoperator.api.v1.parts.run_policy import RunPolicy, SchedulingPolicy
from tfoperator.api.v1.types import ReplicaSpec, TFJobSpec
from tfoperator.api.validation.checks import warning

_REPLICAS = "spec.tfReplicaSpecs"
_POLICY = "spec.runPolicy"
_MINIMUM, _MAXIMUM = "spec.minSucceededWorkers", "spec.maxFailedWorkers"


class Contradiction(msgspec.Struct, frozen=True):
    """Two fields of a struct that contradict each other if both are set.

    `field` is the field that the user should change, and `other` is the second field; both are names in JSON. If
    `value` is not empty, the fields contradict each other only if `field` has this value. If `other_value` is not
    empty, they contradict each other only if `other` has this value. The rule has two forms: `rule`, in CEL, is for API
    servers, and all other code calls `is_in`.
    """

    field: str
    other: str
    other_value: str
    value: str = ""

    @property
    def message(self) -> str:
        """The message about the contradiction."""
        return f"{self.value or self.field} and {self.other} {self.other_value} contradict each other"

    @property
    def rule(self) -> str:
        """The rule, in CEL, that the two fields do not contradict each other; `self` is the struct."""
        absent = (f"!has(self.{name})" for name, _ in self._fields)
        others = (f"self.{name} != '{value}'" for name, value in self._fields if value)
        return " || ".join((*absent, *others))

    def is_in(self, struct: msgspec.Struct) -> bool:
        """Return whether the two fields of the struct contradict each other."""
        attributes = declared(type(struct))
        pairs = ((getattr(struct, attributes[name].attribute), value) for name, value in self._fields)
        return all(has is not None and value in ("", has) for has, value in pairs)

    @property
    def _fields(self) -> tuple[tuple[str, str], ...]:
        return (self.field, self.value), (self.other, self.other_value)


TWO_SUCCESSES = Contradiction("minSucceededWorkers", "successPolicy", SuccessPolicy.ALL_WORKERS)
"""The contradiction between two fields of `spec`."""

IN_PLACE_TOGETHER = Contradiction("restartMode", "restartScope", RestartScope.JOB, RestartMode.IN_PLACE)
"""The contradiction between two fields of `spec.runPolicy`."""


ELASTIC = "spec.elasticPolicy"

ELASTIC_WITH_PS = (
    "must not be set for a job with parameter servers; set enableDynamicWorker if the number of workers has to change"
)
ELASTIC_WITHOUT_WORKERS = "must not be set for a job without workers, because it limits the number of workers"
ELASTIC_ALONE = (
    "Replica and elasticPolicy contradict each other, because a change of the number of workers restarts all replicas"
)
ELASTIC_IN_PLACE = (
    "InPlace and elasticPolicy contradict each other, because a change of the number of workers needs new pods"
)
ELASTIC_DYNAMIC = (
    "true and elasticPolicy contradict each other, because each elastic worker gets the addresses of all workers"
)


def thresholds(spec: TFJobSpec) -> Iterator[Problem]:
    """Yield the problems of `minSucceededWorkers` and `maxFailedWorkers`: contradictions, and unexpected effects."""
    workers = [
        replica
        for key, replica in spec.tf_replica_specs.items()
        if parse_replica_type(key) is ReplicaType.WORKER and replica is not None
    ]
    for path, value in ((_MINIMUM, spec.min_succeeded_workers), (_MAXIMUM, spec.max_failed_workers)):
        if value is not None and not workers:
            yield warning(path, "has no effect: the job has no workers")
    if spec.min_succeeded_workers is not None:
        yield from _minimum(spec, spec.min_succeeded_workers, workers)
    if spec.max_failed_workers is not None:
        for worker in workers:
            if worker.restart_policy in (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE):
                message = (
                    f"has no effect: with restartPolicy {worker.restart_policy} the operator always restarts a "
                    "worker that fails"
                )
                yield warning(_MAXIMUM, message)
            elif spec.max_failed_workers and spec.elastic_policy is not None:
                yield warning(
                    _MAXIMUM,
                    "lets an elastic job continue after a worker has failed for good, but TF_CONFIG of the other "
                    "workers still contains this worker, so they can't train together: leave maxFailedWorkers out, "
                    "and set restartPolicy OnFailure",
                )


def _minimum(spec: TFJobSpec, minimum: IntOrPercent, workers: list[ReplicaSpec]) -> Iterator[Problem]:
    if TWO_SUCCESSES.is_in(spec):
        yield Problem(_MINIMUM, TWO_SUCCESSES.message)
    for worker in workers:
        if isinstance(minimum, int) and minimum > worker.desired:
            yield warning(
                _MINIMUM, f"is {minimum}, but the job has only {worker.desired} workers: all of them have to succeed"
            )
    if spec.policy.clean_pod_policy not in (CleanPodPolicy.ALL, CleanPodPolicy.RUNNING):
        message = (
            "leaves the other workers running after the job has succeeded; to stop them, set cleanPodPolicy to Running"
        )
        yield warning(_MINIMUM, message)


def ends_at_once(policy: RunPolicy) -> Iterator[Problem]:
    """Yield a warning about a deadline that every job exceeds."""
    if policy.active_deadline_seconds == 0:
        yield warning(
            member(_POLICY, "activeDeadlineSeconds"),
            "ends the job as soon as it starts; remove the field if the job has no deadline",
        )


def in_place_mode(spec: TFJobSpec) -> Iterator[Problem]:
    """Yield the problems of a job with the restart mode InPlace; nothing for any other job."""
    path = member(_POLICY, "restartMode")
    if spec.policy.restart_mode != RestartMode.IN_PLACE:
        return
    if IN_PLACE_TOGETHER.is_in(spec.policy):
        yield Problem(path, IN_PLACE_TOGETHER.message)
    policies = {replica.restart_policy for replica in spec.tf_replica_specs.values() if replica is not None}
    if policies.isdisjoint({RestartPolicy.EXIT_CODE, RestartPolicy.ON_FAILURE}):
        yield warning(path, "InPlace has no effect: it needs a replica type with restartPolicy ExitCode or OnFailure")
    for key, replica in spec.tf_replica_specs.items():
        if replica is not None and _restarts_itself(replica):
            yield Problem(
                f"{_REPLICAS}[{key}].template.spec.containers",
                "the container tensorflow must not have a restartPolicy or restartPolicyRules: with "
                "runPolicy.restartMode InPlace the operator sets them",
            )


def _restarts_itself(replica: ReplicaSpec) -> bool:
    try:
        return restarts_in_pod(replica.template)
    except msgspec.DecodeError:
        return False  # this is reported as another problem


def stalls(policy: RunPolicy) -> Iterator[Problem]:
    """Yield warnings about an `onStall` that never has an effect, or that restarts the job again and again."""
    path, deadline = member(_POLICY, "onStall"), policy.progress_deadline_seconds
    if policy.on_stall and deadline is None:
        yield warning(path, "has no effect without progressDeadlineSeconds")
    if policy.on_stall == OnStall.RESTART and deadline is not None and policy.backoff_limit is None:
        yield warning(
            path,
            "Restart has no limit, because spec.runPolicy.backoffLimit is not set: if the job stalls after every "
            "restart, the operator restarts it for ever. Set backoffLimit",
        )


def whole_job_restarts(spec: TFJobSpec) -> Iterator[Problem]:
    """Yield a warning if workers restart together although they can continue without each other.

    The replicas of an elastic job always restart together, so `thresholds` warns about `maxFailedWorkers` instead.
    """
    if spec.elastic_policy is not None:
        return
    if spec.policy.restart_scope == RestartScope.JOB and (spec.enable_dynamic_worker or spec.max_failed_workers):
        yield warning(
            member(_POLICY, "restartScope"),
            "is Job, so all replicas restart together, but with enableDynamicWorker or maxFailedWorkers the workers "
            "can continue without each other: leave restartScope out, unless you want this",
        )


def never_scheduled(policy: SchedulingPolicy, spec: TFJobSpec) -> Iterator[Problem]:
    """Yield a warning about a gang with more members than the job has replicas."""
    total = sum(max(replica.desired, 0) for replica in spec.tf_replica_specs.values() if replica is not None)
    if policy.min_available is not None and total < policy.min_available <= INT32_MAX:
        yield warning(
            member(_POLICY, "schedulingPolicy.minAvailable"),
            f"is {policy.min_available}, but the job has only {total} replicas, so the gang will never be scheduled",
        )


def elastic(spec: TFJobSpec) -> Iterator[Problem]:
    """Yield the problems of an elastic policy: its limits, and members of the spec that contradict it."""
    policy = spec.elastic_policy
    if policy is None:
        return
    least, most = policy.least, policy.max_replicas
    if most is not None and least > most:
        yield Problem(member(ELASTIC, "minReplicas"), f"is {least}, but must be at most maxReplicas, which is {most}")
    kinds = {parse_replica_type(key): replica for key, replica in spec.tf_replica_specs.items()}
    if ReplicaType.PS in kinds:
        yield Problem(ELASTIC, ELASTIC_WITH_PS)
    if (workers := kinds.get(ReplicaType.WORKER)) is None:
        yield Problem(ELASTIC, ELASTIC_WITHOUT_WORKERS)
    elif most is not None and workers.desired > most:
        message = f"is {most}, but must be at least tfReplicaSpecs.Worker.replicas, which is {workers.desired}"
        yield Problem(member(ELASTIC, "maxReplicas"), message)
    elif workers.desired < least:
        message = f"is {least}, but must be at most tfReplicaSpecs.Worker.replicas, which is {workers.desired}"
        yield Problem(member(ELASTIC, "minReplicas"), message)
    if spec.policy.restart_scope == RestartScope.REPLICA:
        yield Problem(member(_POLICY, "restartScope"), ELASTIC_ALONE)
    if spec.policy.restart_mode == RestartMode.IN_PLACE and not IN_PLACE_TOGETHER.is_in(spec.policy):
        yield Problem(member(_POLICY, "restartMode"), ELASTIC_IN_PLACE)
    if spec.enable_dynamic_worker:
        yield Problem("spec.enableDynamicWorker", ELASTIC_DYNAMIC)


def cluster_arguments(spec: TFJobSpec) -> Iterator[Problem]:
    """Yield a warning about arguments that list the workers, if more workers can come later."""
    if spec.cluster_arguments and spec.enable_dynamic_worker:
        yield warning(
            "spec.clusterArguments",
            "names only the workers that exist when a pod is created; programs don't get the addresses of workers "
            "that are added later (enableDynamicWorker)",
        )


def host_names(spec: TFJobSpec) -> Iterator[Problem]:
    """Yield warnings about host names in the templates of a job with one service for all replicas (`network: PerJob`).

    Such host names have no effect, because the operator sets the host name of each pod of such a job.
    """
    if spec.network != Network.PER_JOB:
        return
    for key, replica in spec.tf_replica_specs.items():
        for name in own_host_names(replica.template) if replica is not None else ():
            yield warning(
                f"{_REPLICAS}[{key}].template.spec.{name}",
                f"has no effect: with spec.network {Network.PER_JOB} the operator sets the host name of each pod",
            )
