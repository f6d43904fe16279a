"""What CI calls exists, with a Go that is new enough."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.gobuild import GO_MINIMUM

ROOT = Path(__file__).resolve().parents[3]
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())


def steps(job: str) -> list[dict[str, Any]]:
    return list(WORKFLOW["jobs"][job]["steps"])


def called(text: str) -> list[str]:
    """The targets of all calls of make."""
    return " ".join(re.findall(r"^(?:exec )?make ([a-z -]+)$", text, re.MULTILINE)).split()


@pytest.mark.parametrize("job", WORKFLOW["jobs"])
def test_a_job_of_the_workflow_calls_one_target_of_make(job: str) -> None:
    [target] = called("\n".join(step.get("run", "") for step in steps(job)))
    assert target == job
    assert target in re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_ci_calls_the_short_one_and_then_everything() -> None:
    assert called((ROOT / ".ci/run").read_text()) == ["test", "test-all"]
    assert {"test", "test-all"} <= set(WORKFLOW["jobs"])


def test_programs_are_built_in_the_workflow_by_a_go_that_is_new_enough() -> None:
    [version] = [step["with"]["go-version"] for step in steps("test-all") if "setup-go" in step.get("uses", "")]
    assert tuple(map(int, version.split("."))) >= GO_MINIMUM


def test_programs_are_built_in_the_workflow_as_root_of_the_debian_whose_packages_are_named() -> None:
    container = WORKFLOW["jobs"]["test-all"]["container"]
    assert container["image"].endswith("-bookworm")
    assert "--privileged" in container["options"]
