"""Restarts in place, if `runPolicy.restartMode` is InPlace: the kubelet restarts `tensorflow` in the same pod.

The kubelet does so because of the pod's restart policy OnFailure, or because of the container's `restartPolicyRules`,
with which the operator implements ExitCode (see additions.py in `controller/pods`). The operator need not do anything
for such a restart. The operator counts and reports the restart like a restart in a new pod: when it observes that the
container has ended. If the kubelet was faster, the operator observes that the pod's number of restarts is higher than
in the status. While the container waits for its restart, the status does not have the replica's index in
`startedIndexes`. So if the pod is lost during this wait, the operator does not count a second restart.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from tfoperator.api.replicas.replica_pods import restarted_by_rule
from tfoperator.api.v1.choices import RestartPolicy
from tfoperator.base.clock import seconds_between
from tfoperator.controller.plan.pod_ends.disruption_causes import crash_of
from tfoperator.controller.plan.pod_ends.restart import Ending, is_unseen
from tfoperator.controller.plan.replicas.held_resources import program_of, termination_of
from tfoperator.controller.plan.replicas.replicas import ENDED_STATES, Replica, ReplicaState, restarting
from tfoperator.controller.plan.values.observed import PlanOptions
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStateTerminated

RULE_TIMEOUT = 120.0
"""If a container waits for its restart for longer than this number of seconds while other containers run, the replica
gets a new pod: kubelets older than Kubernetes 1.35 ignore `restartPolicyRules`. A newer kubelet restarts the container
at once, or reports that the container waits.
"""


def restarts_by_kubelet(policy: RestartPolicy, options: PlanOptions) -> bool:
    """Return whether a job with InPlace treats the kubelet's restarts under this policy as restarts of the replica.

    This is the case under OnFailure, and, if the API server supports `restartPolicyRules`, under ExitCode. Under
    Always, the kubelet restarts containers, too, but the operator only counts these restarts: the replica never gets
    the state RESTARTING because of them.
    """
    return policy is RestartPolicy.ON_FAILURE or (policy is RestartPolicy.EXIT_CODE and options.restart_rules)


def end_before_wait(pod: Pod | None) -> ContainerStateTerminated | None:
    """Return how the container `tensorflow` has ended, if it now waits until the kubelet restarts it."""
    program = program_of(pod)
    waits = program is not None and program.state is not None and program.state.waiting is not None
    return termination_of(program, last=True) if waits else None


def awaiting_kubelet(replica: Replica, pod: Pod, so_far: int, noted: int, now: datetime) -> Replica | None:
    """Return the replica as RESTARTING if the container of its running pod waits for a restart; otherwise return None.

    The pod shows `so_far` restarts of the replica; the status has recorded `noted` restarts.
    """
    ended = termination_of(program_of(pod))
    end = ended or end_before_wait(pod)
    if end is None or end.exit_code == 0:
        return None
    crash = crash_of(pod, end.reason) if is_unseen(end) else ""
    cause = str(Ending(end.exit_code, end.reason, infrastructure=False))
    wait = replica.wait
    if ended is not None and len(pod.status.container_statuses) > 1 and ended.finished_at is not None:
        wait = max(RULE_TIMEOUT - seconds_between(ended.finished_at, now), 0.0)
    return msgspec.structs.replace(
        restarting(replica, so_far, noted, cause, disruption=crash),
        exit_code=end.exit_code,
        by_kubelet=True,
        wait=wait,
    )


def crash_before(pod: Pod) -> str:
    """Return the disruption that caused the last restart in place: a crash of the pod's node.

    The result is empty if no crash caused the last restart.
    """
    last = termination_of(program_of(pod), last=True)
    return "" if last is None or not is_unseen(last) else crash_of(pod, last.reason)


def returned(replica: Replica, pod: Pod, so_far: int, noted: int) -> Replica:
    """Return the replica; set `has_returned` if its kubelet has finished restarts that the status has not recorded yet.

    The pod shows `so_far` restarts of the replica; the status has recorded `noted` restarts. The last unrecorded
    restart is marked as new. So if the job ends with this plan because this restart exceeds `backoffLimit`, this
    restart is not counted.
    """
    if so_far <= noted or replica.state in (ReplicaState.RESTARTING, ReplicaState.LEAVING):
        return replica
    if replica.state in ENDED_STATES:
        return msgspec.structs.replace(replica, has_returned=True)
    end = termination_of(program_of(pod), last=True)
    return msgspec.structs.replace(
        replica,
        has_returned=True,
        counted=max(noted, so_far - 1),
        newly_restarting=True,
        disruption=crash_before(pod),
        cause=replica.cause if end is None else str(Ending(end.exit_code, end.reason, infrastructure=False)),
        exit_code=replica.exit_code if end is None else end.exit_code,
        by_kubelet=replica.by_kubelet or end is not None,
    )


def was_left_alone(pod: Pod, ending: Ending) -> bool:
    """Return whether a pod has failed although its `restartPolicyRules` required a restart of the container."""
    if ending.container or ending.infrastructure or pod.status.reason or ending.exit_code is None:
        return False
    return restarted_by_rule(pod, ending.exit_code)
