"""What pods are told and how they restart, in the Go operator's words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.cluster import Cluster
from tests.support.operated import Operated
from tests.support.operator_process import OperatorProcess

pytestmark = pytest.mark.controlplane


def test_the_cluster_domain_is_appended_and_the_evaluator_left_out_where_an_administrator_says_so(
    cluster: Cluster, start_operator: Callable[..., OperatorProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUSTOM_CLUSTER_DOMAIN", "tf.training.com")  # the Go operator's way to say it
    operator = start_operator("--evaluator-in-cluster=false")
    job = Operated(cluster, operator).job("domain", Worker=1, Evaluator=1)
    job.wait_pods("worker-0", "evaluator-0")
    members = {"worker": [f"domain-worker-0.{cluster.namespace}.svc.tf.training.com:2222"]}
    for kind in ("worker", "evaluator"):
        task = {"type": kind, "index": 0}
        assert job.tf_config(f"{kind}-0") == {"cluster": members, "task": task, "environment": "cloud"}


@pytest.mark.parametrize("code", [130, 138])
def test_a_retryable_exit_code_deletes_the_pod_and_makes_it_anew(operated: Operated, code: int) -> None:
    job = operated.running(f"exit-{code}", restart_policy="ExitCode", Worker=2)
    first = job.pod_uid("worker-1")
    job.play("Failed", "worker-1", exit_code=code)
    restarting = job.wait("Restarting")
    assert restarting["reason"] == "TFJobRestarting"
    assert restarting["message"] == f"job exit-{code} is restarting because Worker replica(s) failed."
    job.wait_successor("worker-1", of=first)
    job.play("Running", "worker-1", leads_to="Running")
    assert "Restarting" not in job.conditions(), "Running and Restarting replace each other"
    assert job.restarts() == 1
    job.wait_reasons("ExitedWithCode", "TFJobRestarting", "SuccessfulDeletePod")


@pytest.mark.parametrize("code", [1, 2, 3])
def test_a_permanent_exit_code_fails_the_job(operated: Operated, code: int) -> None:
    job = operated.running(f"exit-{code}", restart_policy="ExitCode", Worker=2)
    job.play("Failed", "worker-1", exit_code=code)
    failed = job.wait("Failed")
    assert failed["message"].startswith(
        f"TFJob {operated.cluster.namespace}/exit-{code} has failed because 1 Worker replica(s) failed."
    )
    assert f"exited with code {code}" in failed["message"]
    assert set(job.wait_stopped("worker-0")) == {"worker-0", "worker-1"}
