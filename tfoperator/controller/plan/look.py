"""Makes the facts about a job that has not ended, in several steps: each step uses the facts from the steps before.

Pure. The steps in their order: observe the replicas; find a stall; move slow replicas to other nodes; restart all
replicas together; delay the pods of disrupted replicas; determine the verdict about the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import chain

import msgspec

from tfoperator.api.fields.limits import MAX_REPLICAS
from tfoperator.api.replicas.names import LABEL_TENSORBOARD
from tfoperator.api.replicas.templates import is_absent
from tfoperator.api.v1.choices import OnStraggler, ReplicaType
from tfoperator.api.v1.status import JobCondition, all_conditions
from tfoperator.api.v1.types import TFJob
from tfoperator.api.validation.job import long_names
from tfoperator.base.clock import whole_second
from tfoperator.controller.plan.elastic.elastic import as_sized, with_full_size, with_size
from tfoperator.controller.plan.facts.facts import Facts, Stage, TensorBoardObjects, Verdict
from tfoperator.controller.plan.facts.progress import left_for_stacks
from tfoperator.controller.plan.objects.data_service import absent_members, long_members, see_data_service
from tfoperator.controller.plan.objects.gang import with_gang
from tfoperator.controller.plan.objects.tensorboard import split_tensorboard
from tfoperator.controller.plan.pod_ends.restart import job_restarts_so_far
from tfoperator.controller.plan.replicas.replica_states import observe_replicas, rests_on_its_pod
from tfoperator.controller.plan.replicas.replicas import ReplicaGroup, ReplicaState, without_new_restart
from tfoperator.controller.plan.restarts.disruptions import with_delays
from tfoperator.controller.plan.restarts.job_restart import with_job_restart
from tfoperator.controller.plan.restarts.stragglers import moved
from tfoperator.controller.plan.training.stall import with_stall
from tfoperator.controller.plan.values.conditions import is_finished, is_held
from tfoperator.controller.plan.values.observed import Observed, PlanOptions, with_own_deletions
from tfoperator.controller.plan.verdicts.invalid import invalid_facts
from tfoperator.controller.plan.verdicts.verdict import judge
from tfoperator.controller.pods.manifests import restarts_together
from tfoperator.controller.pods.naming import NAMINGS, PLAIN_NAMES, is_service_of, naming_in_use, network_in_use
from tfoperator.kube.views.objects import HasMetadata


def look(observed: Observed, now: datetime, options: PlanOptions) -> Facts:
    """Return the facts about a job; the verdict is determined last.

    Raises PodTemplateError if the size of the job's gang can't be found out from its templates.
    """
    observed, tensorboard = _split(with_own_deletions(observed, now))
    options, spec = _as_started(observed, options), observed.job
    if spec.spec.elastic_policy is not None:
        observed = as_sized(observed)
    job, conditions = observed.job, all_conditions(observed.job.status)
    if is_finished(job.status.conditions):
        there = None if observed.problems else tensorboard
        return Facts(observed, now, options, conditions=conditions, verdict=Verdict(Stage.FINISHED), tensorboard=there)
    problems = observed.problems or _unusable(job, options)
    # A suspended job must release its resources, whether the rest of its spec makes sense or not.
    if problems and not (observed.is_suspended and job.status.start_time is not None):
        return invalid_facts(observed, now, options, problems)

    def seen(observed: Observed) -> Facts:
        return _seen(observed, now, options, conditions, None if problems else tensorboard)

    facts = seen(observed)
    if spec.spec.elastic_policy is not None:
        facts = with_size(facts, spec, seen)
    elif job.status.elastic is not None:
        facts = with_full_size(facts)
    return _look_on(facts)


def _split(observed: Observed) -> tuple[Observed, TensorBoardObjects | None]:
    """Return what was observed without the TensorBoard's objects, and these objects.

    The second result is None if the job has no TensorBoard (see `_has_tensorboard`).
    """
    observed = _without_strangers(observed)
    return split_tensorboard(observed) if _has_tensorboard(observed) else (observed, None)


def _without_strangers(observed: Observed) -> Observed:
    """Return the observed objects without services that have another name than the operator would give them.

    A user has created such a service with the job's labels. An older operator may have adopted the service.
    """
    own = [service for service in observed.services if is_service_of(observed.job, service.metadata)]
    return observed if len(own) == len(observed.services) else msgspec.structs.replace(observed, services=tuple(own))


def _has_tensorboard(observed: Observed) -> bool:
    """Return whether the job requests a TensorBoard, or its status or its objects show a TensorBoard."""
    job = observed.job
    if job.spec.tensor_board is not None or job.status.tensor_board is not None or observed.deployments:
        return True
    return any(True for service in observed.services if LABEL_TENSORBOARD in service.metadata.labels)


def _as_started(observed: Observed, options: PlanOptions) -> PlanOptions:
    """Return the options with the naming and the network that the job's objects already use.

    For a job without objects, `options` stay as they are.
    """
    job, pods, services = observed.job, observed.pods, observed.services
    objects: Iterable[HasMetadata] = chain(services, pods)
    naming = naming_in_use(job, objects, options.naming)
    network = network_in_use(job, pods, services, naming.job(job), options.network)
    if naming is options.naming and network is options.network:
        return options
    return msgspec.structs.replace(options, naming=naming, network=network)


def _unusable(job: TFJob, options: PlanOptions) -> tuple[str, ...]:
    """Return the problems that keep the plan from making pods: decoding errors, bad replica specs, too long names.

    Validation can't check the length of names, because the length depends on the operator's options.
    """
    if job.decode_error:
        return tuple(job.decode_error.splitlines())
    problems = []
    for key, replica in job.spec.tf_replica_specs.items():
        path = f"spec.tfReplicaSpecs[{key}]"
        if replica is None:
            problems.append(f"{path}: must not be null")
        elif key != ReplicaType.PS and is_absent(replica.template):
            problems.append(f"{path}.template: is required")
        elif replica.replicas is not None and not 0 <= replica.replicas <= MAX_REPLICAS:
            problems.append(f"{path}.replicas: must be from 0 to {MAX_REPLICAS}")
    if options.naming is not PLAIN_NAMES:
        too_long = long_names("metadata.name", job.metadata.name, job.spec, partial(options.naming.replica, job))
        problems += map(str, too_long)
        if job.spec.data_service is not None:
            problems += long_members(job, options)
    return tuple(problems)


def _look_on(facts: Facts) -> Facts:
    """Return the facts after all steps that follow the observation: from the stall to the verdict and the gang."""
    observed, job, policy, groups = facts.observed, facts.job, facts.job.spec.policy, facts.groups
    deadline = policy.progress_deadline_seconds
    if deadline is not None and deadline >= 1:
        facts = with_stall(facts, deadline)
    if policy.on_straggler == OnStraggler.RESTART:
        facts = moved(facts)
    number = groups[0].record.job_restarts if groups else job_restarts_so_far(job, observed.pods)
    if number or facts.size is not None or restarts_together(job):
        facts = with_job_restart(facts, number)
    if job.status.disruption_backoff is not None or any(group.has_new_disruption for group in groups):
        facts = with_delays(facts)
    left = facts.deadline_left
    if left is not None and left <= 0 and observed.stacks_taken is not None:
        awaits = left_for_stacks(facts.groups, observed.stacks_taken, left, facts.now)
        facts = msgspec.structs.replace(facts, left_for_stacks=awaits)
    facts = _judged(facts)
    if facts.options.gang is not None and facts.verdict.stage is Stage.ACTIVE:
        facts = with_gang(facts, facts.options.gang)
    return facts


def _seen(
    observed: Observed,
    now: datetime,
    options: PlanOptions,
    conditions: tuple[JobCondition, ...],
    tensorboard: TensorBoardObjects | None,
) -> Facts:
    """Return the observed facts about the job and its replicas."""
    job = observed.job
    groups = observe_replicas(job, observed.pods, now, options)
    suspended = observed.is_suspended
    resumed = not suspended and is_held(conditions)
    if resumed and observed.pods:
        # Pods from before the suspension still exist. The job stays suspended until they are gone: otherwise they would
        # count as pods of the resumed job.
        suspended, resumed = True, False
    start = job.status.start_time
    if resumed or (start is None and (observed.pods or observed.services or not suspended)):
        # A suspended job without a status also gets a start time if it has objects, because they show that it was
        # started. After the objects are gone, the start time shows that the job keeps their network.
        start = whole_second(now)
    has_data_service = job.spec.data_service is not None or job.status.data_service is not None
    data_service = see_data_service(observed, now, options) if has_data_service else None
    absent = _absent(observed, options, groups)
    if data_service is not None:
        absent = (*absent, *absent_members(data_service, job, options))
    return Facts(
        observed,
        now,
        options,
        groups,
        suspended,
        resumed,
        start,
        conditions,
        absent=absent,
        tensorboard=tensorboard,
        data_service=data_service,
    )


def _absent(observed: Observed, options: PlanOptions, groups: Sequence[ReplicaGroup]) -> tuple[str, ...]:
    """Return the names of pods that have vanished, and of pods that may have been replaced: these must be looked up.

    If the job has no pods and no services, it is unknown with which naming its pods were created. Then the result has a
    name from each naming for each pod that has vanished.
    """
    nothing_seen = not (observed.pods or observed.services)
    namings = {options.naming, *(NAMINGS if nothing_seen else ())}
    return tuple(
        sorted(
            naming.replica(observed.job, group.type, replica.index)
            for group in groups
            for replica in group.replicas
            if (replica.pod is None and replica.state is ReplicaState.VANISHED) or rests_on_its_pod(replica)
            for naming in namings
        )
    )


def _judged(facts: Facts) -> Facts:
    """Return the facts with the verdict about the job, and with the resulting changes of replicas."""
    verdict, groups = judge(facts), facts.groups
    running_on: Mapping[ReplicaType, int] = {}
    if verdict.stage.is_end:
        groups = tuple(group.changed(without_new_restart) for group in groups)
    elif verdict.stage is Stage.SUSPENDED:
        running_on = _running_on(facts)
        if restarts_together(facts.job):
            # The replicas of this job can train only together, so after the resumption, replicas that had succeeded run
            # again, too.
            groups = _started_over(groups)
    elif facts.restart.causes:
        groups = _started_over(groups)
    elif verdict is facts.verdict:
        return facts
    return msgspec.structs.replace(facts, verdict=verdict, groups=groups, running_on=running_on)


def _started_over(groups: Sequence[ReplicaGroup]) -> tuple[ReplicaGroup, ...]:
    return tuple(group.started_over() for group in groups)


def _running_on(facts: Facts) -> Mapping[ReplicaType, int]:
    """Return the number of replicas of a suspended job that still run, by type.

    In the first plan after the suspension, only running pods that must stay until their logs are archived count: the
    pods that this plan deletes count as gone, as in the Go operator. In a later plan, every running pod counts.
    """
    again, unkept = is_held(facts.conditions), facts.observed.pods_of_unkept_logs
    return {
        group.type: sum(
            replica.state is ReplicaState.RUNNING
            and replica.pod is not None
            and (again or replica.pod.metadata.uid in unkept)
            for replica in group.replicas
        )
        for group in facts.groups
    }
