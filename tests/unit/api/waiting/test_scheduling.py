import pytest

from tests.unit.controller.builders import make_pod
from tfoperator.api.waiting import ReasonKind, unschedulable_reasons
from tfoperator.api.waiting.scheduling import why_no_node
from tfoperator.kube.views.pod_status import PodCondition

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


def refused(message: str, reason: str = "Unschedulable") -> PodCondition:
    return PodCondition("PodScheduled", "False", reason, message)


@pytest.mark.parametrize(
    ("message", "expected", "remedy"),
    [
        (
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
            "Insufficient nvidia.com/gpu",
            "more nodes",
        ),
        (
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
            "node(s) didn't match Pod's node affinity/selector",
            "correct nodeSelector",
        ),
        (
            "0/1 nodes are available: 1 node(s) had untolerated taint {dedicated: tpu}.",
            "node(s) had untolerated taint {dedicated: tpu}",
            "add a toleration",
        ),
        (
            '0/1 nodes are available: persistentvolumeclaim "data" not found. not found',
            'persistentvolumeclaim "data" not found',
            "create the PersistentVolumeClaim",
        ),
        (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "pod has unbound immediate PersistentVolumeClaims",
            "why the claim has no volume",
        ),
        (
            "no nodes available to schedule pods",
            "no nodes available to schedule pods",
            "ask an administrator to add nodes",
        ),
    ],
)
def test_each_obstacle_of_a_scheduler_has_a_next_step(message: str, expected: str, remedy: str) -> None:
    reason = why_no_node(make_pod("Worker-0", "Pending", conditions=(refused(message),)))
    assert reason is not None
    assert (reason.kind, reason.message) == (ReasonKind.UNSCHEDULABLE, expected)
    assert remedy in reason.next_step


def test_a_pod_with_a_gate_and_a_member_of_a_waiting_gang_say_so() -> None:
    gated = why_no_node(make_pod("Worker-0", "Pending", conditions=(refused("gates", "SchedulingGated"),)))
    assert gated is not None
    assert gated.kind is ReasonKind.GATED
    member = why_no_node(make_pod("Worker-0", "Pending", conditions=(refused("pod group is not ready, 3 Pending"),)))
    assert member is not None
    assert member.message == "the scheduler can't find nodes for enough pods of its gang"
    assert why_no_node(make_pod("Worker-0", "Pending")) is None
