from typing import Any

import pytest

from hack.enumeration.sieve.runner import find
from hack.enumeration.world.world import World
from hack.faults.oracle.clients import (
    RULES,
    by_counts,
    by_kstatus,
    by_last,
    by_newest,
    by_type,
    misled_clients,
    peer_conditions,
)
from tfoperator.api.v1.condition_types import PEER_CONDITIONS, ConditionType
from tfoperator.controller.plan.values import conditions as plan_conditions

Json = dict[str, Any]


def conditions(*texts: str) -> list[Json]:
    """Conditions of texts such as `Running=True@3`: the type, the status, and the second of the transition."""
    parsed = []
    for text in texts:
        (kind, _, rest), (status, _, second) = text.partition("="), text.partition("=")[2].partition("@")
        assert rest
        time = {"lastTransitionTime": f"2026-01-01T00:00:0{second}Z"} if second else {}
        parsed.append({"type": kind, "status": status, **time})
    return parsed


def status(*texts: str, **more: Any) -> Json:
    return {"conditions": conditions(*texts), **more}


RUNS = ("Created=True@1", "Running=True@3")


@pytest.mark.parametrize(
    ("texts", "phase"),
    [
        ((), "Queued"),
        (("Created=True@1",), "Queued"),
        (RUNS, "Running"),
        ((*RUNS, "Running=False@5", "Succeeded=True@5"), "Success"),
        ((*RUNS, "Failed=True@5"), "RetryableFailure"),
        (("Created=True@1", "Running=False@4", "Restarting=True@4"), "Running"),
        (("Created=True@1", "Suspended=True@2"), "Undefined: Invalid transition"),
        ((*RUNS, "Ready=True@4"), "Undefined: Invalid transition"),
        ((*RUNS, "Ready=True"), "Running"),
        (("Created=False@1",), "Undefined: Invalid transition"),
    ],
)
def test_flyte_takes_the_newest_true_condition_and_knows_five_types(texts: tuple[str, ...], phase: str) -> None:
    assert by_newest(status(*texts)) == phase


def test_pipelines_take_the_last_condition_and_sdks_any_of_a_type() -> None:
    assert [by_last(status(*texts)) for texts in ((), RUNS, (*RUNS, "Failed=True@5"))] == ["", "", "Failed"]
    assert by_last(status("Created=True@1", "Succeeded=True@5", "Ready=False@5")) == ""
    assert by_last(status("Created=True@1", "Succeeded=False@5")) == ""
    assert by_type(status(*RUNS, "Ready=True@4")) == by_type(status(*RUNS))
    assert by_type(status(*RUNS))["Running"]


def test_old_components_take_the_counts_of_the_leading_replicas() -> None:
    counts: Json = {"Worker": {"active": 2}, "Chief": {"succeeded": 1}, "PS": {"failed": 1}}
    assert by_counts({"replicaStatuses": counts}) == (False, True, True)
    assert by_counts({"replicaStatuses": {"Worker": {"active": 2}}}) == (True, False, False)
    assert by_counts({}) == (False, False, False)


@pytest.mark.parametrize(
    ("texts", "result"),
    [
        (RUNS, "Current"),
        ((*RUNS, "Ready=True@4"), "Current"),
        ((*RUNS, "Ready=False@4"), "InProgress"),
        ((*RUNS, "Ready=Unknown@4"), "InProgress"),
        ((*RUNS, "Stalled=True@4"), "Failed"),
        ((*RUNS, "Stalled=False@4"), "Current"),
        ((*RUNS, "Reconciling=True@4"), "InProgress"),
    ],
)
def test_kstatus_takes_three_types_for_its_own(texts: tuple[str, ...], result: str) -> None:
    assert by_kstatus(status(*texts)) == result


@pytest.mark.parametrize(
    ("steps", "after"),
    [
        ([("Created=True@1", "Running=False@1")], ["Created=True"]),
        ([RUNS, ("Created=True@1", "Running=False@4", "Restarting=True@4")], ["Created=True", "Restarting=True"]),
        (
            [("Created=True@1", "Restarting=True@4"), ("Created=True@1", "Running=True@5")],
            ["Created=True", "Running=True"],
        ),
        (
            [RUNS, ("Created=True@1", "Running=False@5", "Failed=True@5")],
            ["Created=True", "Running=False", "Failed=True"],
        ),
        (
            [("Created=True@1", "Restarting=True@4"), ("Created=True@1", "Restarting=False@5", "Failed=True@5")],
            ["Created=True", "Failed=True"],
        ),
        (
            [RUNS, ("Created=True@1", "Running=False@5", "Suspended=True@5")],
            ["Created=True", "Suspended=True", "Running=False"],
        ),
        (
            [("Created=True@1", "Suspended=True@2"), ("Created=True@1", "Suspended=False@3")],
            ["Created=True", "Suspended=False"],
        ),
        ([("Failed=True@1",), ("Failed=True@1", "Running=True@2")], ["Failed=True"]),
    ],
)
def test_the_reference_keeps_the_go_operators_list(steps: list[tuple[str, ...]], after: list[str]) -> None:
    listed: list[Json] = []
    for texts in steps:
        listed = peer_conditions(listed, conditions(*texts))
    assert [f"{condition['type']}={condition['status']}" for condition in listed] == after


def test_a_transition_time_that_moves_while_nothing_changes_misleads() -> None:
    before = peer_conditions([], conditions("Created=True@1", "Running=True@3"))
    moved = status("Created=True@4", "Running=True@3")
    assert any("Flyte reads 'Queued'" in text for text in misled_clients(before, moved))


@pytest.mark.parametrize("kind", sorted(set(ConditionType) - PEER_CONDITIONS))
def test_each_type_of_ours_would_mislead_a_client_that_found_it_among_the_conditions(kind: str) -> None:
    before = conditions(*RUNS)
    assert not list(misled_clients(before, status(*RUNS)))
    assert list(misled_clients(before, status(*RUNS, f"{kind}=True@4")))
    assert set(RULES) == {"Flyte", "Kubeflow Pipelines", "an SDK", "an old component", "kstatus"}


def test_a_condition_that_is_added_to_the_go_operators_is_noticed_by_a_play(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = find("OnFailure")
    assert World(scenario).play().violations == []
    monkeypatch.setattr(plan_conditions, "PEER_CONDITIONS", PEER_CONDITIONS | {ConditionType.READY})
    violations = [str(violation) for violation in World(scenario).play().violations]
    assert any("kstatus reads 'InProgress'" in text for text in violations), violations
