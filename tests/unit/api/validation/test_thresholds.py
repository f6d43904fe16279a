from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.samples import tfjob
from tfoperator.api import validate_manifest

STOPS = {"cleanPodPolicy": "Running"}


def said(**spec: Any) -> list[str]:
    workers = spec.pop("workers", {"Worker": {"replicas": 4}})
    return [str(problem) for problem in validate_manifest(tfjob(workers, runPolicy=STOPS, **spec))]


MINIMUM = 'spec.minSucceededWorkers: must be a number from 1 or a percentage from "1%" to "100%", but is '
MAXIMUM = 'spec.maxFailedWorkers: must be a number from 0 or a percentage from "0%" to "100%", but is '


@pytest.mark.parametrize(
    ("values", "minimum", "maximum"),
    [
        ([1, 4, "1%", "80%", "100%"], None, None),
        ([0, "0%"], MINIMUM, None),
        ([-1, "", "half", "101%", "1.5%", "3"], MINIMUM, MAXIMUM),
        ([1.5, True, [], {"percent": 80}], "spec.minSucceededWorkers: must be", "spec.maxFailedWorkers: must be"),
    ],
    ids=["a number or a share", "none may fail, but success takes one", "neither", "another type"],
)
def test_a_number_or_a_share_of_workers_is_good(values: list[Any], minimum: str | None, maximum: str | None) -> None:
    for name, wrong in (("minSucceededWorkers", minimum), ("maxFailedWorkers", maximum)):
        for value in values:
            found = said(**{name: value})
            assert [bool(wrong and one.startswith(wrong)) for one in found] == ([True] if wrong else []), value


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
