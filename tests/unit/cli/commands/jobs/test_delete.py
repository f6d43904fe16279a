from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.jobs import submitted_manifest
from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Tell


def test_jobs_are_deleted_by_name(tell: Tell, world: ServedWorld) -> None:
    for name in "ab":
        world.submit(name)
    said = tell("delete", "a", "b", "--wait")
    assert (said.code, said.out) == (0, "tfjob.kubeflow.org/a deleted\ntfjob.kubeflow.org/b deleted\n")
    assert world.sdk.list_jobs() == []


def test_the_jobs_of_a_manifest_are_deleted_and_nothing_else(tell: Tell, world: ServedWorld, tmp_path: Path) -> None:
    world.submit()
    settings = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})
    path = tmp_path / "job.yaml"
    path.write_text(f"{settings}---\n{submitted_manifest()}")
    said = tell("delete", "-f", str(path), "-o", "json")
    assert json.loads(said.out) == {"deleted": [{"name": "mnist", "namespace": world.namespace}]}
    assert "ConfigMap settings is left alone" in said.err
    assert world.sdk.list_jobs() == []


def test_a_missing_job_does_not_keep_the_others(tell: Tell, world: ServedWorld) -> None:
    world.submit("b")
    said = tell("delete", "a", "b", code=1)
    assert "there is no TFJob a" in said.err
    assert world.sdk.list_jobs() == []
    assert tell("delete", "a", "--ignore-not-found").code == 0


@pytest.mark.parametrize("arguments", [[], ["a", "-f", "x.yaml"]])
def test_names_or_files_not_both(tell: Tell, arguments: list[str]) -> None:
    said = tell("delete", *arguments, code=2)
    assert "name either jobs or manifests" in said.err
