"""Jobs that an older operator of this project has started, under this one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster import Json, decode
from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster, Operated
from tfoperator.api.v1.types import TFJOBS

pytestmark = pytest.mark.controlplane


def as_left_by_an_older_one(operated: Operated, name: str, policy: str, **run_policy: Any) -> JobOnCluster:
    """A running job of two workers, the first of which was restarted twice; no operator runs.

    Its spec has what older CRDs filled in, and its status what older operators knew of.
    """
    run_policy = {"cleanPodPolicy": "None", "suspend": False, **run_policy}
    job = operated.running(name, restart_policy=policy, run_policy=run_policy, Worker=2)
    operated.operator.kill()
    worker: Json = {"active": 2, "ready": 2, "restarts": 2, "restartCounts": {"0": 2}, "startedIndexes": "0-1"}
    older = {"restarts": 2, "jobRestarts": None, "replicaStatuses": {"Worker": worker}}
    job.cluster.client.patch(TFJOBS, job.cluster.namespace, name, {"status": older}, decode, subresource="status")
    return job


def counts(job: JobOnCluster) -> Json:
    return dict(job.status()["replicaStatuses"]["Worker"].get("restartCounts") or {})


@pytest.mark.parametrize("policy", ["OnFailure", "ExitCode"])
def test_counts_go_on_and_the_limit_allows_one_more_than_before(operated: Operated, policy: str) -> None:
    job = as_left_by_an_older_one(operated, f"older-{policy.lower()}", policy, backoffLimit=3)
    job.play("Failed", "worker-1", exit_code=137)
    uid = job.pod_uid("worker-1")
    operated.operator.start().wait_ready()
    job.wait_successor("worker-1", of=uid)
    job.play("Running", "worker-1", leads_to="Running")
    eventually(lambda: counts(job) == {"0": 2, "1": 1}, every=0.05, what="the restart is counted")
    job.play("Failed", "worker-1", exit_code=137)
    assert "backoff limit" in job.wait("Failed")["message"]
    assert job.restarts() == 3


def test_a_pod_that_was_taken_during_the_upgrade_is_made_again_under_never(operated: Operated) -> None:
    job = as_left_by_an_older_one(operated, "older-never", "Never")
    uid = job.pod_uid("worker-1")
    job.delete_pod("worker-1")
    operated.operator.start().wait_ready()
    job.wait_successor("worker-1", of=uid)
    job.play("Running", "worker-1")
    eventually(lambda: counts(job) == {"0": 2, "1": 1}, every=0.05, what="the loss is counted")
    assert "Failed" not in job.conditions()
