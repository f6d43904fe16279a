import re

import msgspec
import pytest

from tests.unit.controller.builders import (
    NOW,
    OPTIONS,
    after,
    make_job,
    make_pod,
    plan_for,
    planned,
    services_of,
    started,
    waiting,
    with_status,
)
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import ReplicaStatus
from tfoperator.api.waiting import Reason, ReasonKind, text_of, waiting_for
from tfoperator.controller.plan.replicas.replica_states import observe_replicas
from tfoperator.controller.plan.replicas.replicas import waiting_reasons
from tfoperator.controller.plan.values.observed import Observed, Refusals
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import PodCondition

NOT_PULLED = "ImagePullBackOff: image example.com/train:1 can't be pulled"


def unschedulable(message: str) -> Pod:
    return make_pod(
        "Worker-0", "Pending", conditions=(PodCondition("PodScheduled", "False", "Unschedulable", message),)
    )


def pending(reason: str, message: str = "") -> Pod:
    return make_pod("Worker-0", "Pending", containers=(waiting(reason, message),))


def summary(*pods: Pod, replicas: int = 1) -> str:
    groups = observe_replicas(make_job({"Worker": replicas}), pods, NOW, OPTIONS)
    return without_steps(text_of(waiting_for(waiting_reasons(groups, {}, NOW, (), gang=None))))


def without_steps(text: str) -> str:
    """The reasons without the steps that they suggest."""
    return re.sub(r"\. Next: [^;]*", "", text)


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (make_pod("Worker-0"), ""),
        (make_pod("Worker-0", "Pending"), ""),
        (pending("ContainerCreating"), ""),
        (
            pending("ErrImagePull", "rpc error: no such image"),
            f"Worker-0 waits: {NOT_PULLED}: the registry does not have this image",
        ),
        (pending("ImagePullBackOff", 'Back-off pulling image "x"'), f"Worker-0 waits: {NOT_PULLED}"),
        (
            pending("CreateContainerConfigError", 'secret "s" not found'),
            'Worker-0 waits: CreateContainerConfigError: secret "s" not found',
        ),
        (
            unschedulable(
                "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Insufficient cpu. "
                "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
            ),
            "Worker-0 waits: Unschedulable: Insufficient cpu, node(s) had untolerated taint {a: b}",
        ),
        (unschedulable("waiting for the gang"), "Worker-0 waits: Unschedulable: waiting for the gang"),
        (
            unschedulable("minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"),
            "Worker-0 waits: Unschedulable: the scheduler can't find nodes for enough pods of its gang",
        ),
        (unschedulable(""), "Worker-0 waits: Unschedulable"),
        (make_pod("Worker-0", "Pending", conditions=(PodCondition("Ready", "False", "ContainersNotReady"),)), ""),
        (
            make_pod("Worker-0", "Pending", init_containers=(waiting("CrashLoopBackOff", container="fetch"),)),
            "Worker-0 waits: init container fetch: CrashLoopBackOff since 12:00:00 UTC",
        ),
        (
            make_pod("Worker-0", "Running", containers=(waiting("CrashLoopBackOff", container="proxy"),)),
            "Worker-0 waits: container proxy: CrashLoopBackOff",
        ),
        (
            make_pod("Worker-0", "Running", containers=(waiting("CrashLoopBackOff", "back-off 10s restarting"),)),
            "Worker-0 waits: CrashLoopBackOff",
        ),
    ],
)
def test_why_a_replica_waits(pod: Pod, text: str) -> None:
    assert summary(pod) == text


def test_equal_reasons_are_told_together_and_long_lists_cut() -> None:
    pods = [
        make_pod(f"Worker-{i}", "Pending", containers=(waiting("ImagePullBackOff" if i > 1 else "A"),))
        for i in range(7)
    ]
    assert summary(*pods, replicas=7) == (
        f"Worker-0 and Worker-1 wait: A; Worker-2, Worker-3, Worker-4, Worker-5 and Worker-6 wait: {NOT_PULLED}"
    )
    assert summary(*pods[2:5], replicas=5) == f"Worker-2, Worker-3 and Worker-4 wait: {NOT_PULLED}"
    many = [make_pod(f"Worker-{i}", "Pending", containers=(waiting(f"R{i}"),)) for i in range(10)]
    assert summary(*many, replicas=10).endswith("Worker-7 waits: R7; 2 more for other reasons")
    assert len(summary(unschedulable("x" * 5000))) < 300


def test_a_job_that_does_not_run_says_why_without_disturbing_its_state() -> None:
    result = planned(started(make_job({"Worker": 2})), pending("ImagePullBackOff"))
    running, created = result.status.conditions
    assert (running.type, running.status, running.reason) == ("Running", "False", "TFJobPending")
    assert running.message == (
        f"TFJob ns/mnist does not run yet. 0/2 replicas ready; Worker-0 waits: {NOT_PULLED}. Next: to see the "
        "kubelet's report: kubectl describe pod."
    )
    assert (created.type, created.message) == ("Created", "TFJob mnist is created.")


QUOTA = Reason(ReasonKind.QUOTA, "ResourceQuota q has no room for its pod", "request less")
TAKEN = Reason(ReasonKind.NAME_TAKEN, "Pod ns/mnist-worker-1 has a name that this job needs", "delete it")


def running_message(refusals: Refusals | None, *pods: Pod, replicas: int = 4, before: Reason | None = None) -> str:
    job = started(make_job({"PS": 1, "Worker": replicas}))
    if before is not None:
        waiting = waiting_for([("Worker", 1, before), ("Worker", 2, before)])
        job = with_status(job, msgspec.structs.replace(job.status, waiting=waiting))
    observed = Observed(job, pods, services_of(job), not_created=refusals)
    plan = plan_for(observed)
    return plan.condition(ConditionType.RUNNING).message if plan.has_condition(ConditionType.RUNNING) else ""


def test_a_refusal_is_the_reason_of_every_replica_of_its_type_that_has_no_pod() -> None:
    pods = (make_pod("PS-0", "Pending"), make_pod("Worker-0", "Pending"))
    message = running_message({(ReplicaType.WORKER, 2): QUOTA}, *pods)
    assert f"Worker-1, Worker-2 and Worker-3 wait: {QUOTA}" in message
    assert "PS-0 wait" not in message


def test_a_name_that_is_taken_holds_up_its_own_replica_alone() -> None:
    message = running_message({(ReplicaType.WORKER, 1): TAKEN}, make_pod("PS-0", "Pending"))
    assert f"; Worker-1 waits: {TAKEN}." in message


def test_an_object_that_all_replicas_need_holds_up_all() -> None:
    message = running_message({"services": QUOTA})
    assert f"PS-0, Worker-0, Worker-1, Worker-2 and Worker-3 wait: {QUOTA}" in message


def test_a_replica_with_a_pod_has_no_refusal_any_more() -> None:
    pods = [make_pod(f"Worker-{index}", "Pending") for index in range(4)]
    assert running_message({(ReplicaType.WORKER, 2): QUOTA}, make_pod("PS-0", "Pending"), *pods) == ""


def test_a_new_leader_keeps_the_refusals_that_the_status_names_until_it_has_tried_itself() -> None:
    assert f"Worker-1 and Worker-2 wait: {QUOTA}." in running_message(None, before=QUOTA)
    assert "Quota" not in running_message({}, before=QUOTA)


def test_an_image_keeps_its_cause_when_the_kubelet_names_it_in_every_other_message_only() -> None:
    job = started(make_job({"Worker": 1}))
    first = planned(job, pending("ErrImagePull", 'failed to pull image "x": not found'))
    again = planned(with_status(job, first.status), pending("ImagePullBackOff", 'Back-off pulling image "x"'))
    assert again.status.conditions == first.status.conditions
    init = [
        make_pod("Worker-0", "Pending", init_containers=(waiting("ErrImagePull", text, container="fetch"),))
        for text in ("not found", "")
    ]
    first = planned(job, init[0])
    assert planned(with_status(job, first.status), init[1]).status.conditions == first.status.conditions


def test_a_job_is_looked_at_again_when_its_pod_has_been_prepared_for_long() -> None:
    prepared = make_pod(
        "Worker-0",
        "Pending",
        node="n1",
        containers=(waiting("ContainerCreating"),),
        conditions=(PodCondition("PodReadyToStartContainers", "False"),),
    )
    job = started(make_job({"Worker": 1}))
    soon = planned(job, prepared, now=after(1))
    assert soon.requeue_after == 3
    assert not soon.has_condition(ConditionType.RUNNING)
    late = planned(job, prepared, now=after(4))
    assert late.requeue_after is None
    assert (
        "Worker-0 waits: PodIsPrepared: the kubelet of its node prepares the pod since 12:00:00 UTC"
        in late.condition(ConditionType.RUNNING).message
    )


def test_a_replica_that_was_taken_waits_for_its_restart_with_the_cause() -> None:
    pod = make_pod(
        "Worker-0",
        node="n1",
        deleted=NOW,
        conditions=(PodCondition("DisruptionTarget", "True", "EvictionByEvictionAPI"),),
    )
    job = started(make_job({"Worker": 2}), replica_statuses={"Worker": ReplicaStatus(started_indexes="0-1")})
    message = planned(job, pod, make_pod("Worker-1")).condition(ConditionType.RUNNING).message
    assert "restart (evicted from node n1 through the API, as a drain does: EvictionByEvictionAPI)" in message


def test_the_reasons_are_in_the_status_for_programs_until_the_job_runs_or_ends() -> None:
    job = started(make_job({"Worker": 2}))
    result = planned(job, pending("ImagePullBackOff"))
    [entry] = result.status.waiting
    assert (entry.reason, entry.replicas, entry.count) == ("ImagePullBackOff", {"Worker": "0"}, 1)
    assert entry.message == "image example.com/train:1 can't be pulled"
    assert entry.next_step == "to see the kubelet's report: kubectl describe pod"
    waits = with_status(job, result.status)
    assert planned(waits, make_pod("Worker-0"), make_pod("Worker-1")).status.waiting == ()
    ended = make_pod("Worker-0", "Succeeded", exit_code=0)
    assert planned(waits, ended, make_pod("Worker-1", "Pending")).status.waiting == ()


def test_an_older_crd_that_drops_the_reasons_costs_no_write() -> None:
    job = started(make_job({"Worker": 2}))
    first = planned(job, pending("ImagePullBackOff"))
    dropped = msgspec.structs.replace(first.status, waiting=())
    again = planned(with_status(job, dropped), pending("ImagePullBackOff"))
    assert again.status.waiting == first.status.waiting
    assert not again.write_status
