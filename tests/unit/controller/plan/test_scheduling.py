from __future__ import annotations

import pytest

from tfoperator.controller.plan.waiting import unschedulable_reasons

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
