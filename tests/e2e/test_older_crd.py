"""A CRD that is older than the operator, on a real API server: what the operator shows, with and without rights."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from hack.controlplane import ControlPlane
from tests.support.chart import run_chart_test
from tests.support.cluster import Cluster, tfjob
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.operated import JobOnCluster
from tests.support.operator_process import OperatorProcess
from tfoperator.api.schema.crd import crd
from tfoperator.operator.crd_check import missing_fields_of

pytestmark = pytest.mark.controlplane


@contextmanager
def older_crd(plane: ControlPlane, cluster: Cluster) -> Iterator[None]:
    """Serve a CRD without the field `spec.runPolicy.onStall`, until the end of the context."""
    (version,) = crd()["spec"]["versions"]
    fetch = partial(cluster.client.get_raw, accept="*/*")
    (old,) = crd()["spec"]["versions"]
    spec = old["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["runPolicy"]["properties"]["onStall"]
    cluster.replace_crd_version(old)
    try:
        eventually(lambda: missing_fields_of(fetch) == ("spec.runPolicy.onStall",), what="the old CRD is served")
        yield
    finally:
        cluster.replace_crd_version(version)
        eventually(lambda: missing_fields_of(fetch) == (), what="the CRD of this release is served")


def test_an_older_crd_shows_in_log_metric_and_events(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, start_operator: Callable[..., OperatorProcess]
) -> None:
    kubectl = Kubectl(plane.kubeconfig, cluster.namespace)
    (tmp_path / "job.yaml").write_text(
        json.dumps(tfjob("uses-it", Worker=1, run_policy={"onStall": "Restart", "progressDeadlineSeconds": 600}))
    )
    with older_crd(plane, cluster):
        kubectl("apply", "--validate=false", "-f", str(tmp_path / "job.yaml"))
        cluster.submit(tfjob("plain", Worker=1))
        assert "onStall" not in cluster.job("uses-it")["spec"]["runPolicy"]
        operator = start_operator()
        job = JobOnCluster(cluster, cluster.job("uses-it"))
        job.wait_reasons("FieldsPruned")
        (event,) = [event for event in job.events() if event["reason"] == "FieldsPruned"]
        assert "removes spec.runPolicy.onStall from this job" in event["message"]
        # The check sends the events before it writes the metric and the log.
        warning = "the API server removes spec.runPolicy.onStall from jobs"
        eventually(lambda: warning in operator.log.read_text(), what="the log names the missing field")
        assert operator.metrics()["tfoperator_crd_missing_fields"] == 1
        plain = JobOnCluster(cluster, cluster.job("plain"))
        assert "FieldsPruned" not in {event["reason"] for event in plain.events()}
        operator.kill()
        tested = run_chart_test(plane.kubeconfig, cluster.namespace)
        assert tested.returncode == 1
        assert warning in tested.stderr

    # The job is applied again, now with its field, and the next operator has nothing to show.
    kubectl("apply", "-f", str(tmp_path / "job.yaml"))
    assert cluster.job("uses-it")["spec"]["runPolicy"]["onStall"] == "Restart"
    operator = start_operator()
    eventually(lambda: operator.metrics().get("tfoperator_crd_missing_fields") == 0, what="the CRD has been compared")
    assert "older than tfoperator" not in operator.log.read_text()
