import pytest

from tests.unit.controller.builders import NOW, OPTIONS, make_job, make_pod, planned, started, waiting
from tfoperator.controller.plan.replica_states import observe_replicas
from tfoperator.controller.plan.waiting import unschedulable_reasons, waiting_summary
from tfoperator.kube.objects import Pod, PodCondition


def unschedulable(message: str) -> Pod:
    return make_pod(
        "Worker-0", "Pending", conditions=(PodCondition("PodScheduled", "False", "Unschedulable", message),)
    )


def pending(reason: str, message: str = "") -> Pod:
    return make_pod("Worker-0", "Pending", containers=(waiting(reason, message),))


def summary(*pods: Pod, replicas: int = 1) -> str:
    return waiting_summary(observe_replicas(make_job({"Worker": replicas}), pods, NOW, OPTIONS), in_gang=False)


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (make_pod("Worker-0"), ""),
        (make_pod("Worker-0", "Pending"), ""),
        (pending("ContainerCreating"), ""),
        (pending("ErrImagePull", "rpc error: no such image"), "Worker-0 waits: ImagePullBackOff"),
        (pending("ImagePullBackOff", 'Back-off pulling image "x"'), "Worker-0 waits: ImagePullBackOff"),
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
        (unschedulable("minCount (3) cannot be satisfied: 1 scheduled, 1 remaining"), "Worker-0 waits: Unschedulable"),
        (unschedulable(""), "Worker-0 waits: Unschedulable"),
        (make_pod("Worker-0", "Pending", conditions=(PodCondition("Ready", "False", "ContainersNotReady"),)), ""),
        (
            make_pod("Worker-0", "Pending", init_containers=(waiting("CrashLoopBackOff", container="fetch"),)),
            "Worker-0 waits: init container fetch: CrashLoopBackOff",
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
        "Worker-0 and Worker-1 wait: A; Worker-2, Worker-3, Worker-4 and 2 more wait: ImagePullBackOff"
    )
    assert summary(*pods[2:5], replicas=5) == "Worker-2, Worker-3 and Worker-4 wait: ImagePullBackOff"
    many = [make_pod(f"Worker-{i}", "Pending", containers=(waiting(f"R{i}"),)) for i in range(5)]
    assert summary(*many, replicas=5).endswith("Worker-2 waits: R2; 2 more for other reasons")
    assert len(summary(unschedulable("x" * 5000))) < 200


def test_a_job_that_does_not_run_says_why_without_disturbing_its_state() -> None:
    result = planned(started(make_job({"Worker": 2})), pending("ImagePullBackOff"))
    running, created = result.status.conditions
    assert (running.type, running.status, running.reason) == ("Running", "False", "TFJobPending")
    assert running.message == ("TFJob ns/mnist does not run yet. 0/2 replicas ready; Worker-0 waits: ImagePullBackOff.")
    assert (created.type, created.message) == ("Created", "TFJob mnist is created.")


PREEMPTION = (
    ". preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling., "
    "PodGroup ns/x gets rejected due to Pod x-worker-0 is unschedulable even after PostFilter."
)


@pytest.mark.parametrize(
    ("message", "obstacles"),
    [
        ("", []),
        (
            "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory.",
            ["Insufficient cpu", "Insufficient memory"],
        ),
        ("0/1 nodes are unavailable: 1 Insufficient cpu.", ["Insufficient cpu"]),
        ("something of a scheduler of your own.", ["something of a scheduler of your own"]),
        (
            "0/1 nodes are available: resource gap: map[cpu:{{5000 -3} {<nil>}  DecimalSI} "
            "nvidia.com/gpu:{{2 0} {<nil>} 2 DecimalSI}]" + PREEMPTION,
            ["Insufficient cpu", "Insufficient nvidia.com/gpu"],
        ),
        (
            "0/1 nodes are available: pre-filter pod x-worker-0 cannot find enough sibling pods, "
            "current pods number: 2, minMember of group: 3" + PREEMPTION,
            [],
        ),
        ("0/1 nodes are available: podGroup ns/x failed recently" + PREEMPTION, []),
        ("rejection in Unreserve", []),
        ('pod "x-worker-0" rejected while waiting on permit: rejected due to timeout after waiting 5s', []),
        ("pod group is not ready, 1 Bound, 1 minAvailable, 2 Pending; Pending: 2 Unschedulable", []),
        (
            "2/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; Pending: 3 x. "
            "Origin reason is x-worker-0: 0/1 nodes are unavailable: 1 node(s) had untolerated taint.",
            ["node(s) had untolerated taint"],
        ),
        ("Pod ns/x-worker-0 can possibly be assigned to node-1", []),
    ],
)
def test_what_a_scheduler_says_is_reduced_to_what_is_lacking(message: str, obstacles: list[str]) -> None:
    assert unschedulable_reasons(message) == obstacles
