"""Disruptions of a job are no failures of it, on a real node: the table of docs/reference, a drain, a lost node."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.faults.oracle.history import true_conditions
from hack.node import NODE_NAME
from tests.support.disruption_rules import RULES, DisruptionStage
from tests.support.eventually import eventually
from tests.support.in_cluster import LIMIT, SHELL_IMAGE, InCluster
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config

Json = dict[str, Any]


@pytest.fixture
def stage(namespace: InCluster, tmp_path: Path) -> Iterator[DisruptionStage]:
    tmp_path.chmod(0o777)
    shared = {
        "volumes": [{"name": "shared", "hostPath": {"path": str(tmp_path)}}],
        "volumeMounts": [{"name": "shared", "mountPath": str(tmp_path)}],
    }
    with Client(load_config(str(namespace.cluster.kubeconfig))) as client:
        yield DisruptionStage(client, namespace.namespace, tmp_path, image=SHELL_IMAGE, pod_spec=shared)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_tells_disruptions_from_failures(stage: DisruptionStage, rule: str) -> None:
    RULES[rule](stage)


EIGHT: dict[str, Json] = {
    "never": {"policy": "Never"},
    "on-failure": {"policy": "OnFailure"},
    "always": {"policy": "Always"},
    "exit-code": {"policy": "ExitCode"},
    "joint": {"restartScope": "Job"},
    "in-place": {"policy": "ExitCode", "restartMode": "InPlace"},
    "moved": {"onStraggler": "Restart"},
    "may-not-fail": {"policy": "Never", "maxFailedWorkers": 0, "progressDeadlineSeconds": 3600, "onStall": "Fail"},
}
"""Jobs of two workers that may not be started again once after a failure."""

TOLERATIONS = [
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
    for why in ("not-ready", "unreachable")
]


def start_eight(stage: DisruptionStage) -> None:
    for name, options in EIGHT.items():
        stage.start(name, replicas=2, **{"backoffLimit": 0, **options})
    for name in EIGHT:
        stage.until(name, "Ready")


def disrupted(stage: DisruptionStage, name: str) -> Json | None:
    """The status of a job, once it counts what was taken from it: each worker, or all of them once; maybe again."""
    status = stage.status(name)
    assert not {"Failed", "Succeeded"} & true_conditions(status).keys(), status
    number = status.get("disruptions", 0)
    assert number == status.get("restarts", 0), status
    return status if number >= (1 if name == "joint" else 2) else None


def assert_all_are_made_again(stage: DisruptionStage, why: str) -> None:
    for name in EIGHT:
        status = eventually(lambda name=name: disrupted(stage, name), within=LIMIT, every=0.5, what=f"{name} counts it")
        assert "failedIndexes" not in status["replicaStatuses"]["Worker"]
        messages = eventually(lambda name=name: stage.messages(name, "TFJobRestarting"), within=LIMIT, every=0.5)
        assert any(why in message for message in messages), messages
        assert name != "joint" or len(messages) == status["jobRestarts"], messages


def test_a_drain_fails_no_job_whatever_its_policy(stage: DisruptionStage, namespace: InCluster) -> None:
    start_eight(stage)
    try:
        namespace.kubectl(
            "drain", NODE_NAME, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s",
            f"--pod-selector=training.kubeflow.org/job-name in ({','.join(EIGHT)})", timeout=150,
        )  # fmt: skip
        assert_all_are_made_again(stage, f"evicted from node {NODE_NAME} through the API, as a drain does")
    finally:
        namespace.kubectl("uncordon", NODE_NAME)
    for name in EIGHT:
        stage.until(name, "Ready")
        assert disrupted(stage, name)


@pytest.mark.timeout(900)
def test_a_lost_node_fails_no_job_whatever_its_policy(stage: DisruptionStage, namespace: InCluster) -> None:
    """The kubelet stops, Kubernetes gives the node up and evicts its pods, and the operator makes them again."""
    stage.pod_spec["tolerations"] = TOLERATIONS
    start_eight(stage)
    with namespace.cluster.without_kubelet():
        for name in EIGHT:
            eventually(lambda name=name: disrupted(stage, name), within=300, every=1, what=f"{name} has lost its node")
        assert_all_are_made_again(stage, f"node {NODE_NAME} is lost: DeletionByTaintManager")
    namespace.kubectl("wait", "--for=condition=Ready", f"node/{NODE_NAME}", "--timeout=180s", timeout=200)
    for name in EIGHT:
        stage.until(name, "Ready")
        assert disrupted(stage, name)
