import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from hack.bench.loads import Load
from hack.bench.verify import MAX_COMPLAINTS, Found, verify
from tests.hack.bench.outcomes import ALONE, CHURNING, DYNAMIC, FINISHING, MANY, PER_JOB, STAYING, outcome

Json = dict[str, Any]


@pytest.mark.parametrize("load", [STAYING, FINISHING, CHURNING, PER_JOB, ALONE], ids=lambda load: load.name)
def test_a_faultless_outcome_gives_no_cause_for_complaint(load: Load) -> None:
    assert verify(load, outcome(load)) == []


def _list(objects: Iterable[Json]) -> list[Json]:
    assert isinstance(objects, list)
    return objects


def _without(objects: str, name: str) -> Callable[[Found], None]:
    def spoil(snapshot: Found) -> None:
        found_objects: list[Json] = getattr(snapshot, objects)
        found_objects[:] = [obj for obj in found_objects if obj["metadata"]["name"] != name]

    return spoil


def _changed(objects: str, name: str, change: Callable[[Json], object]) -> Callable[[Found], None]:
    def spoil(snapshot: Found) -> None:
        change(next(obj for obj in getattr(snapshot, objects) if obj["metadata"]["name"] == name))

    return spoil


def _twice(objects: str, name: str) -> Callable[[Found], None]:
    def spoil(snapshot: Found) -> None:
        found_objects: list[Json] = getattr(snapshot, objects)
        extra = copy.deepcopy(next(obj for obj in found_objects if obj["metadata"]["name"] == name))
        extra["metadata"]["name"] += "-again"
        found_objects.append(extra)

    return spoil


def _condition(kind: str, status: str) -> Callable[[Json], object]:
    def change(job: Json) -> None:
        others = [condition for condition in job["status"]["conditions"] if condition["type"] != kind]
        job["status"]["conditions"] = [*others, {"type": kind, "status": status}]

    return change


def _env(job: Json) -> list[Json]:
    env: list[Json] = job["spec"]["containers"][0]["env"]
    return env


POD, JOB = "bench-0001-worker-1", "bench-0001"

SPOILT = {
    "a job is missing": (_without("jobs", JOB), f"TFJob {JOB}: missing"),
    "a pod is missing": (_without("pods", POD), f"pod {POD}: missing"),
    "a service is missing": (_without("services", POD), f"service {POD}: missing"),
    "a pod is doubled": (_twice("pods", POD), f"pods of {JOB}-worker-1: 2 of them"),
    "a pod is too many": (_twice("pods", POD), f"pod {POD}-again: should not be there"),
    "a service is doubled": (_twice("services", POD), f"services of {JOB}-worker-1: 2 of them"),
    "a job is too many": (_twice("jobs", JOB), f"TFJob {JOB}-again: should not be there"),
    "a pod does not run": (_changed("pods", POD, lambda pod: pod["status"].update(phase="Pending")), "is Pending"),
    "a pod is on its way out": (
        _changed("pods", POD, lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z")),
        "is being deleted",
    ),
    "a label is wrong": (
        _changed("pods", POD, lambda pod: pod["metadata"]["labels"].update({"training.kubeflow.org/job-name": "x"})),
        "label training.kubeflow.org/job-name is 'x'",
    ),
    "a service's label is missing": (
        _changed(
            "services", POD, lambda service: service["metadata"]["labels"].pop("training.kubeflow.org/replica-index")
        ),
        "label training.kubeflow.org/replica-index is None",
    ),
    "a pod has no owner": (_changed("pods", POD, lambda pod: pod["metadata"].pop("ownerReferences")), "has 0 owners"),
    "the owner is another job's UID": (
        _changed("pods", POD, lambda pod: pod["metadata"]["ownerReferences"][0].update(uid="uid-0")),
        "its owner reference is wrong: {'uid': 'uid-0'}",
    ),
    "the owner is not in charge": (
        _changed("services", POD, lambda service: service["metadata"]["ownerReferences"][0].pop("controller")),
        "its owner reference is wrong: {'controller': None}",
    ),
    "TF_CONFIG is missing": (_changed("pods", POD, lambda pod: _env(pod).pop()), "has 0 TF_CONFIG"),
    "TF_CONFIG is no JSON": (_changed("pods", POD, lambda pod: _env(pod)[-1].update(value="{")), "is no JSON"),
    "TF_CONFIG is a neighbour's": (
        _changed(
            "pods",
            POD,
            lambda pod: _env(pod)[-1].update(value=_env(pod)[-1]["value"].replace('"index": 1', '"index": 0')),
        ),
        "says it is {'type': 'worker', 'index': 0}",
    ),
    "TF_CONFIG is another job's": (
        _changed(
            "pods", POD, lambda pod: _env(pod)[-1].update(value=_env(pod)[-1]["value"].replace(JOB, "bench-0000"))
        ),
        "names another cluster",
    ),
    "a service is not headless": (
        _changed("services", POD, lambda service: service["spec"].update(clusterIP="10.0.0.1")),
        "is not headless",
    ),
    "a service selects nothing": (
        _changed("services", POD, lambda service: service["spec"].pop("selector")),
        "selects {}",
    ),
    "a service has no port": (_changed("services", POD, lambda service: service["spec"].pop("ports")), "the one port"),
    "a job does not run": (
        _changed("jobs", JOB, _condition("Running", "False")),
        f"TFJob {JOB}: condition Running is False, not True",
    ),
    "a job has failed": (_changed("jobs", JOB, _condition("Failed", "True")), f"TFJob {JOB}: has failed"),
    "a job has no status": (_changed("jobs", JOB, lambda job: job.pop("status")), "condition Running is None"),
    "a status counts too few": (
        _changed("jobs", JOB, lambda job: job["status"]["replicaStatuses"]["Worker"].update(active=1)),
        f"TFJob {JOB}: Worker is {{'active': 1}}, not 2 active",
    ),
}


FINISHED_BADLY = {
    "it did not succeed": (_changed("jobs", JOB, _condition("Succeeded", "False")), "Succeeded is False, not True"),
    "it still claims to run": (_changed("jobs", JOB, _condition("Running", "True")), "Running is True, not False"),
    "its end has no time": (
        _changed("jobs", JOB, lambda job: job["status"].pop("completionTime")),
        "has no completionTime",
    ),
    "a worker still runs": (
        _changed("pods", POD, lambda pod: pod["status"].update(phase="Running")),
        "is Running, not Succeeded",
    ),
    "a parameter server was left behind": (
        lambda snapshot: _list(snapshot.pods).append(_list(outcome(STAYING).pods)[0]),
        "pod bench-0000-ps-0: should not be there",
    ),
}


@pytest.mark.parametrize(
    ("load", "spoil", "complaint"),
    [
        *(pytest.param(STAYING, *case, id=name) for name, case in SPOILT.items()),
        *(pytest.param(FINISHING, *case, id=f"finished: {name}") for name, case in FINISHED_BADLY.items()),
    ],
)
def test_an_outcome_is_refused_if(load: Load, spoil: Callable[[Found], None], complaint: str) -> None:
    snapshot = outcome(load)
    spoil(snapshot)
    complaints = verify(load, snapshot)
    assert any(complaint in text for text in complaints), complaints


def test_a_job_may_have_ended_before_anybody_saw_it_run() -> None:
    snapshot = outcome(FINISHING)
    for job in snapshot.jobs:
        job["status"]["conditions"] = [
            condition for condition in job["status"]["conditions"] if condition["type"] != "Running"
        ]
    assert verify(FINISHING, snapshot) == []


def test_a_pod_that_was_made_twice_is_refused_even_if_one_is_left_unless_some_are_killed() -> None:
    snapshot = outcome(STAYING)
    doubled = Found(snapshot.jobs, snapshot.pods, snapshot.services, {**snapshot.pods_made, POD: 2})
    assert verify(STAYING, doubled) == [f"pod {POD}: was created 2 times"]
    snapshot = outcome(CHURNING)
    assert (
        verify(CHURNING, Found(snapshot.jobs, snapshot.pods, snapshot.services, {**snapshot.pods_made, POD: 3})) == []
    )


def test_complaints_are_bounded() -> None:
    assert len(verify(Load("large", jobs=100), Found([], [], []))) == MAX_COMPLAINTS


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_without("services", "bench-0001"), "service bench-0001: missing"),
        (_twice("services", "bench-0000"), "service bench-0000-again: should not be there"),
        (_changed("services", "bench-0000", lambda service: service["spec"].pop("clusterIP")), "is not headless"),
        (
            _changed("services", "bench-0000", lambda service: service["metadata"].pop("labels")),
            "label training.kubeflow.org",
        ),
        (
            _changed("services", "bench-0000", lambda service: service["metadata"].pop("ownerReferences")),
            "has 0 owners",
        ),
        (_changed("pods", "bench-0000-ps-0", lambda pod: pod["spec"].pop("subdomain")), "its host name is"),
    ],
)
def test_one_service_for_all_is_looked_at_as_closely(spoil: Callable[[Found], None], complaint: str) -> None:
    snapshot = outcome(PER_JOB)
    spoil(snapshot)
    assert any(complaint in text for text in verify(PER_JOB, snapshot)), verify(PER_JOB, snapshot)


def test_many_hosts_may_be_said_in_short() -> None:
    snapshot = outcome(MANY)
    assert {variable["name"] for variable in _env(snapshot.pods[-1])} >= {"_", "TF_CONFIG"}
    assert len(_env(snapshot.pods[-1])[-1]["value"]) < 1000
    assert verify(MANY, snapshot) == []
    next(variable for variable in _env(snapshot.pods[-1]) if variable["name"] == "_")["value"] = "x"
    assert verify(MANY, snapshot) == ["pod bench-0001-worker-89: its TF_CONFIG names another cluster"]


def test_objects_are_looked_at_one_after_the_other_and_dynamic_workers_are_told_of_themselves_alone() -> None:
    whole = outcome(DYNAMIC)
    snapshot = Found(iter(whole.jobs), iter(whole.pods), iter(whole.services), whole.pods_made)
    assert verify(DYNAMIC, snapshot) == []


def test_no_parameter_servers_may_be_said_by_null() -> None:
    load = replace(DYNAMIC, ps=0)
    snapshot = outcome(load)
    for pod in snapshot.pods:
        _env(pod)[-1]["value"] = _env(pod)[-1]["value"].replace('"ps": []', '"ps": null')
        assert "null" in _env(pod)[-1]["value"]
    assert verify(load, snapshot) == []


def test_a_replica_that_is_alone_gets_no_cluster() -> None:
    snapshot = outcome(ALONE)
    for pod in snapshot.pods:
        _env(pod).append({"name": "TF_CONFIG", "value": "{}"})
    assert verify(ALONE, snapshot)[0] == "pod bench-0000-worker-0: has a TF_CONFIG, though it is alone"
