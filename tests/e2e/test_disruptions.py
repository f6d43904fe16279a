"""Disruptions of a job are no failures of it, on the embedded node: each row of the table in docs/reference."""

from pathlib import Path

import pytest
import yaml

from tests.support.cluster import decode
from tests.support.disruption_rules import RULES, DisruptionStage
from tests.support.local_cluster import cluster
from tfoperator.api.v1.types import TFJOBS
from tfoperator.local.controlplane import ControlPlane

__all__ = ["cluster"]

ROOT = Path(__file__).parents[2]

TAKEN = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: taken}
spec:
  runPolicy: {backoffLimit: 0}
  tfReplicaSpecs:
    Worker:
      replicas: 1
      restartPolicy: OnFailure
      template: {spec: {containers: [{name: tensorflow, image: x, command: [sleep, "60"]}]}}
"""


@pytest.fixture
def stage(cluster: ControlPlane, tmp_path: Path) -> DisruptionStage:
    return DisruptionStage(cluster.client, "default", tmp_path, image="none")


@pytest.mark.journey
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_tells_disruptions_from_failures(stage: DisruptionStage, rule: str) -> None:
    RULES[rule](stage)


@pytest.mark.journey
def test_a_pod_that_is_deleted_is_made_again_also_where_no_restart_is_allowed(stage: DisruptionStage) -> None:
    stage.client.create(TFJOBS, "default", yaml.safe_load(TAKEN), decode)
    stage.take("taken")
    status = stage.until("taken", "Running", restarts=1, disruptions=1)
    assert "Failed" not in {condition["type"] for condition in status["conditions"]}


@pytest.mark.journey
def test_the_table_of_the_docs_has_a_play_for_each_row() -> None:
    page = (ROOT / "docs/reference/disruptions.md").read_text()
    table = page.partition("\n| rule | disruption | failure |\n|---|---|---|\n")[2].partition("\n\n")[0]
    assert [line.split(" | ")[0].strip("| ") for line in table.splitlines()] == list(RULES)
