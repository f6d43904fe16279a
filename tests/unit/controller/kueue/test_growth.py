import json
from typing import Any

import pytest

from tfoperator.api.kueue.queues import POD_SETS_ANNOTATION, REPLACES_ANNOTATION, WORKLOAD_ANNOTATION
from tfoperator.api.kueue.workloads import Workload, decode_workload
from tfoperator.controller.kueue.growth import lacks_reservation
from tfoperator.controller.kueue.lag import is_of
from tfoperator.controller.kueue.left import index_by_job
from tfoperator.kube.views.objects import decode_pod

Condition = tuple[str, str, str]
REPLACED = ("Finished", "True", "WorkloadSliceReplaced")


def workload(name: str, *conditions: Condition, **metadata: Any) -> Workload:
    bodies = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    body = {"metadata": {"name": name, "namespace": "ns", **metadata}, "status": {"conditions": bodies}}
    return decode_workload(json.dumps(body).encode())


def second(*conditions: Condition, replaces: str = "ns/first", **metadata: Any) -> Workload:
    return workload("second", *conditions, annotations={REPLACES_ANNOTATION: replaces}, **metadata)


@pytest.mark.parametrize(
    ("workloads", "lacks"),
    [
        ([workload("first", REPLACED), second()], True),
        ([workload("first", REPLACED), second(("QuotaReserved", "False", "Pending"))], True),
        ([workload("first", REPLACED), second(("QuotaReserved", "True", "QuotaReserved"))], False),
        ([workload("first", REPLACED), second(("Evicted", "True", "Preempted"))], False),
        ([workload("first", REPLACED), second(deletionTimestamp="2026-01-01T00:00:00Z")], False),
        ([workload("first", REPLACED), second(replaces="ns/another")], False),
        ([workload("first", ("Finished", "True", "JobFinished")), second()], False),
        ([workload("first"), second()], False),
        ([workload("first", REPLACED)], False),
        ([second()], False),
        ([], False),
    ],
)
def test_a_replaced_workload_proves_that_the_second_workload_had_quota(workloads: list[Workload], lacks: bool) -> None:
    assert lacks_reservation(workloads) is lacks
    assert lacks_reservation(workloads[::-1]) is lacks


@pytest.mark.parametrize("made_for", ["second", "first", "another"])
def test_pods_of_a_workload_without_a_job_may_have_been_made_for_the_workload_that_it_replaced(made_for: str) -> None:
    body = {"metadata": {"name": "mnist-worker-0", "annotations": {WORKLOAD_ANNOTATION: made_for}}}
    pod = decode_pod(json.dumps(body).encode())
    assert is_of(pod, second()) is (made_for != "another")
    assert not is_of(pod, workload("third"))


def test_an_event_of_such_a_pod_finds_the_workload() -> None:
    mark = {POD_SETS_ANNOTATION: "a", REPLACES_ANNOTATION: "ns/first"}
    assert index_by_job(workload("second", annotations=mark)) == ("ns/second", "ns/first")
    assert index_by_job(workload("second", annotations={POD_SETS_ANNOTATION: "a"})) == ("ns/second",)
    assert index_by_job(second()) == (), "the operator does not handle it"
