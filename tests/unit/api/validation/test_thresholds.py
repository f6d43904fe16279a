from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.samples import tfjob
from tfoperator.api import validate_manifest

STOPS = {"cleanPodPolicy": "Running"}


def said(**spec: Any) -> list[str]:
    workers = spec.pop("workers", {"Worker": {"replicas": 4}})
    return [str(problem) for problem in validate_manifest(tfjob(workers, runPolicy=STOPS, **spec))]


@pytest.mark.parametrize("value", [1, 4, "1%", "80%", "100%"])
def test_a_number_or_a_share_of_workers_is_good(value: Any) -> None:
    assert said(minSucceededWorkers=value) == []
    assert said(maxFailedWorkers=value) == []


@pytest.mark.parametrize("value", [-1, "", "half", "101%", "1.5%", "3"])
def test_anything_else_is_not(value: Any) -> None:
    (minimum,), (maximum,) = said(minSucceededWorkers=value), said(maxFailedWorkers=value)
    assert minimum.startswith(
        'spec.minSucceededWorkers: must be a number from 1 or a percentage from "1%" to "100%", but is'
    )
    assert maximum.startswith(
        'spec.maxFailedWorkers: must be a number from 0 or a percentage from "0%" to "100%", but is'
    )


@pytest.mark.parametrize("value", [0, "0%"])
def test_none_may_fail_but_success_takes_one(value: Any) -> None:
    assert said(maxFailedWorkers=value) == []
    assert len(said(minSucceededWorkers=value)) == 1


@pytest.mark.parametrize("value", [1.5, True, [], {"percent": 80}])
def test_other_types_are_refused(value: Any) -> None:
    (problem,) = said(minSucceededWorkers=value)
    assert problem.startswith("spec.minSucceededWorkers: must be")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"minSucceededWorkers": 5}, "is 5, but there are 4 workers: it means all of them"),
        ({"minSucceededWorkers": 1, "workers": {"Chief": {}}}, "the job has no workers"),
        ({"maxFailedWorkers": 1, "workers": {"Chief": {}}}, "the job has no workers"),
        ({"maxFailedWorkers": 1, "workers": {"worker": {"restartPolicy": "OnFailure"}}}, "under OnFailure a worker"),
        ({"minSucceededWorkers": 1, "runPolicy": None}, "cleanPodPolicy Running stops them"),
        ({"minSucceededWorkers": 1, "runPolicy": {"cleanPodPolicy": "None"}}, "cleanPodPolicy Running stops them"),
    ],
)
def test_what_will_surprise_is_warned_about(spec: dict[str, Any], words: str) -> None:
    workers = spec.get("workers", {"Worker": {"replicas": 4}})
    others = {name: value for name, value in spec.items() if name != "workers"}
    (problem,) = validate_manifest(tfjob(workers, **{"runPolicy": STOPS, **others}))
    assert problem.severity == "warning"
    assert words in problem.message
