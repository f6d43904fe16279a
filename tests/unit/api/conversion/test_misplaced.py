from typing import Any

import pytest

from tests.unit.api.samples import tfjob
from tfoperator.api.conversion import misplaced_policies, move_policies


def early(**spec: Any) -> dict[str, Any]:
    return tfjob({"Worker": {}}, **spec)


def test_policies_of_the_spec_go_to_the_run_policy_and_the_rest_stays() -> None:
    job = early(cleanPodPolicy="All", schedulingPolicy={"minAvailable": 2}, successPolicy="AllWorkers")
    assert misplaced_policies(job) == ["cleanPodPolicy", "schedulingPolicy"]
    moved = move_policies(job)
    spec = moved.obj["spec"]
    assert spec["runPolicy"] == {"cleanPodPolicy": "All", "schedulingPolicy": {"minAvailable": 2}}
    assert spec["successPolicy"] == "AllWorkers"
    assert not {"cleanPodPolicy", "schedulingPolicy"} & spec.keys()
    assert moved.origin("spec.runPolicy.schedulingPolicy.minAvailable") == "spec.schedulingPolicy.minAvailable"
    assert [note.field for note in moved.notes] == ["spec.cleanPodPolicy", "spec.schedulingPolicy"]
    assert move_policies(moved.obj).obj is moved.obj, "the second time nothing is left to move"
    assert job["spec"]["cleanPodPolicy"] == "All", "the original is not changed"


@pytest.mark.parametrize(("own", "lost"), [(3, False), (4, True)])
def test_the_run_policys_own_value_holds(own: int, lost: bool) -> None:
    moved = move_policies(early(backoffLimit=3, runPolicy={"backoffLimit": own}))
    assert moved.obj["spec"]["runPolicy"] == {"backoffLimit": own}
    assert [note.lost for note in moved.notes] == [lost]


@pytest.mark.parametrize("spec", [None, 3, {"cleanPodPolicy": "All", "runPolicy": 7}])
def test_other_shapes_are_left_to_validation(spec: object) -> None:
    job = early() | {"spec": spec}
    assert move_policies(job).obj == job


def test_other_versions_have_their_own_conversion() -> None:
    assert misplaced_policies(early(cleanPodPolicy="All") | {"apiVersion": "kubeflow.org/v1alpha2"}) == []
