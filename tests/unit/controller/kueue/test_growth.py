import json
from typing import Any

import pytest

from tfoperator.api.kueue.queues import REPLACES_ANNOTATION
from tfoperator.api.kueue.workloads import Workload, decode_workload
from tfoperator.controller.kueue.growth import lacks_reservation

Condition = tuple[str, str, str]
REPLACED = ("Finished", "True", "WorkloadSliceReplaced")


def workload(name: str, *conditions: Condition, **metadata: Any) -> Workload:
    found = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    body = {"metadata": {"name": name, "namespace": "ns", **metadata}, "status": {"conditions": found}}
    return decode_workload(json.dumps(body).encode())


def second(*conditions: Condition, replaces: str = "ns/first", **metadata: Any) -> Workload:
    return workload("second", *conditions, annotations={REPLACES_ANNOTATION: replaces}, **metadata)


@pytest.mark.parametrize(
    ("found", "lacks"),
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
def test_a_replaced_workload_proves_that_the_second_workload_had_quota(found: list[Workload], lacks: bool) -> None:
    assert lacks_reservation(found) is lacks
    assert lacks_reservation(found[::-1]) is lacks
