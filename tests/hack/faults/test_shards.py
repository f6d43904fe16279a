"""What a plan with shards does, and what its oracle says of who wrote."""

from __future__ import annotations

import pytest
from hack.faults.oracle.shards import Write, judge_writes

from hack.faults.injection.operators import written_by
from hack.faults.injection.proxy import namespace_of
from hack.faults.plan.scenario import make_scenario
from hack.faults.plan.steps import Act, Profile

EMBEDDED = Profile(real=False, wall_speed=20.0)


def write(process: str = "0.0", number: int = 0, count: int = 2, namespace: str = "training", at: float = 0.0) -> Write:
    """`training` belongs to shard 0 of 2 and of 3."""
    return Write(process, number, count, namespace, at)


def test_one_layout_after_the_other_is_fine() -> None:
    assert judge_writes([write(at=1), write("1.0", at=1.1), write("2.0", count=3, at=2)]) == []


def test_a_shard_that_does_not_serve_the_namespace_must_not_write() -> None:
    [found] = judge_writes([write(), write("1.0", number=1)], paused={"1.0"})
    assert (found.kind, "shard 1 of 2" in found.text) == ("doubled", True)


def test_two_layouts_at_a_time_are_two_masters() -> None:
    writes = [write(at=1), write("1.0", count=3, at=1.1), write(at=1.2)]
    assert [one.kind for one in judge_writes(writes)] == ["doubled", "doubled"]


def test_what_a_paused_process_sends_when_it_wakes_proves_nothing() -> None:
    writes = [write(at=1), write("1.0", count=3, at=5), write(at=5.1), write("1.0", count=3, at=5.2)]
    assert judge_writes(writes, paused={"0.0"}) == []


def test_an_oracle_that_has_seen_nothing_says_so() -> None:
    [found] = judge_writes([])
    assert found.kind == "wrong"


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("tfoperator-plan/1-of-3/2.5", write("2.5", 1, 3, "ns", 7)),
        ("tfoperator-plan/0-of-0/0.0", None),
        ("tfoperator/1.0", None),
    ],
)
def test_a_user_agent_says_who_writes(agent: str, expected: Write | None) -> None:
    assert written_by(agent, "ns", 7) == expected


@pytest.mark.parametrize(
    ("path", "namespace"),
    [
        ("/api/v1/namespaces/a/pods/b", "a"),
        ("/apis/kubeflow.org/v1/namespaces/a/tfjobs", "a"),
        ("/api/v1/pods", ""),
    ],
)
def test_a_path_says_in_which_namespace(path: str, namespace: str) -> None:
    assert namespace_of(path) == namespace


def test_plans_with_shards_have_three_operators_and_roll_outs_of_all_of_them() -> None:
    plans = [make_scenario(seed, EMBEDDED, shards=True) for seed in range(50)]
    assert all(plan.operators == 3 and plan.sharded for plan in plans)
    rolled = [[step.value for step in plan.steps if step.act is Act.ROLL_OUT] for plan in plans]
    assert {tuple(one) for one in rolled if len(one) <= 3} == {(), (2, 1, 0)}
    assert {len(one) for one in rolled} == {0, 3, 6}
    killed = {step.value for plan in plans for step in plan.steps if step.act is Act.KILL_OPERATOR}
    assert killed == {0, 1, 2}


def test_other_seeds_keep_their_meaning() -> None:
    for seed in range(20):
        plain, sharded = make_scenario(seed, EMBEDDED), make_scenario(seed, EMBEDDED, shards=True)
        assert plain.jobs == sharded.jobs
        assert not any(step.act is Act.ROLL_OUT for step in plain.steps)
