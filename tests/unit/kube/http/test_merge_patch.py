from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controller.builders import NOW, after
from tfoperator.api.v1.status import JobCondition, ReplicaStatus, TFJobStatus
from tfoperator.kube import apply_merge_patch
from tfoperator.kube.http.requests import merge_patch

CREATED = JobCondition("Created", "True", "R", "m", NOW, NOW)


def test_it_holds_only_what_has_changed_and_null_for_what_is_gone() -> None:
    old = TFJobStatus(phase="Pending", conditions=(CREATED,), replica_statuses={"PS": ReplicaStatus(active=1)})
    new = msgspec.structs.replace(old, phase="Running")
    assert (merge_patch(old, new), merge_patch(old, old)) == ({"phase": "Running"}, {})
    servers = ReplicaStatus(active=1, restart_counts={"0": 1, "1": 2})
    old = TFJobStatus(completion_time=NOW, replica_statuses={"PS": servers, "Worker": ReplicaStatus()})
    new = TFJobStatus(replica_statuses={"PS": ReplicaStatus(restart_counts={"1": 3})})
    replicas = {"PS": {"active": None, "restartCounts": {"0": None, "1": 3}}, "Worker": None}
    assert merge_patch(old, new) == {"completionTime": None, "replicaStatuses": replicas}


def test_conditions_are_sent_whole_and_times_as_kubernetes_writes_them() -> None:
    new = TFJobStatus(conditions=(CREATED, JobCondition("Running", "True")), start_time=after(1))
    patch = merge_patch(TFJobStatus(conditions=(CREATED,)), new)
    times = dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), "2026-01-01T12:00:00Z")
    created = {"type": "Created", "status": "True", "reason": "R", "message": "m", **times}
    conditions = [created, {"type": "Running", "status": "True"}]
    expected = {"conditions": conditions, "startTime": "2026-01-01T12:00:01Z"}
    assert msgspec.json.decode(msgspec.json.encode(patch)) == expected


STATUSES: st.SearchStrategy[Any] = st.builds(
    TFJobStatus,
    phase=st.sampled_from(["", "Running"]),
    restarts=st.integers(0, 2),
    conditions=st.lists(st.builds(JobCondition, st.sampled_from("AB"), st.sampled_from("TF")), max_size=2).map(tuple),
    start_time=st.none() | st.just(NOW),
    replica_statuses=st.dictionaries(
        st.sampled_from(["PS", "Worker"]),
        st.builds(
            ReplicaStatus,
            active=st.integers(0, 2),
            restart_counts=st.dictionaries(st.sampled_from("012"), st.integers(1, 3)),
        ),
    ),
)


@given(old=STATUSES, new=STATUSES)
def test_applied_to_the_old_status_it_yields_the_new_one(old: TFJobStatus, new: TFJobStatus) -> None:
    patch = merge_patch(old, new)
    plain = msgspec.to_builtins(old)
    merged = apply_merge_patch(plain, patch)
    assert msgspec.convert(merged, TFJobStatus) == new
