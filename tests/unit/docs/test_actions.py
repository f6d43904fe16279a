"""GitHub's actions are named by commit, have few rights, and make no release of a stranger's proposal."""

import re
from pathlib import Path

import pytest
import yaml

GITHUB = Path(__file__).resolve().parents[3] / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").iterdir())
PINNED = re.compile(r"uses: [\w/-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_named_by_commit_and_says_its_version(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if re.search(r"\buses:", line)]
    assert lines
    assert [line for line in lines if not PINNED.search(line)] == []
    versions: dict[str, set[str]] = {}
    for line in lines:
        name, commit, _, version = line.replace("@", " ").split("uses: ")[1].split()
        versions.setdefault(commit, set()).add(f"{name.split('/')[1]} {version}")
    assert all(len(names) == 1 for names in versions.values()), versions


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_reads_and_a_job_may_write_findings_at_most(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        more = job.get("permissions", {"contents": "read"})
        assert more == {"contents": "read"} or name == "analyze", name
        assert {right for right, access in more.items() if access != "read"} <= {"security-events"}


def test_updates_of_actions_are_proposed_and_a_proposed_change_makes_no_release() -> None:
    updates = yaml.safe_load((GITHUB / "dependabot.yml").read_text())["updates"]
    assert [update["package-ecosystem"] for update in updates] == ["github-actions"]
    release = yaml.safe_load((GITHUB / "workflows/ci.yml").read_text())["jobs"]["release"]
    assert release["if"] == "github.event_name != 'pull_request'"
