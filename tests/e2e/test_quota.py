"""Replacements under a ResourceQuota, whose count of a pod that has ended comes a moment after the end.

The test counts in the place of the controller of quotas, so that the moment is as long as it wants.
"""

from __future__ import annotations

import pytest

from tests.support.cluster import Json, decode
from tests.support.eventually import eventually
from tests.support.operated import Operated
from tfoperator.kube.resources import Resource

pytestmark = pytest.mark.controlplane

QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas")


def count(operated: Operated, pods: int) -> None:
    """The controller of quotas has counted so many pods, of two that the namespace may have."""
    status: Json = {"status": {"hard": {"pods": "2"}, "used": {"pods": str(pods)}}}
    cluster = operated.cluster
    cluster.client.patch(QUOTAS, cluster.namespace, "pods", status, decode, subresource="status")


def test_a_quota_that_still_counts_a_pod_which_has_ended_is_told_only_if_that_lasts(operated: Operated) -> None:
    job = operated.running("full", restart_policy="OnFailure", Worker=2)
    quota: Json = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "2"}}}
    operated.cluster.client.create(QUOTAS, operated.cluster.namespace, quota, decode)
    count(operated, 2)
    for _ in range(3):
        failed = job.pod_uid("worker-0")
        job.play("Failed", "worker-0", exit_code=1)
        eventually(lambda: set(job.pods()) == {"worker-1"}, every=0.05, what="there is no room for the replacement")
        count(operated, 1)
        job.wait_successor("worker-0", of=failed)
        job.play("Running", "worker-0", leads_to="Running")
    assert "FailedCreatePod" not in job.reasons()
    job.play("Failed", "worker-0", exit_code=1)
    job.wait_reasons("FailedCreatePod")
    [event] = [one for one in job.events() if one["reason"] == "FailedCreatePod"]
    assert "exceeded quota: pods" in event["message"]
    assert set(job.pods()) == {"worker-1"}
