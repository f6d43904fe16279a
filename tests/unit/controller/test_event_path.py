"""How much of the house one event goes through, to the creation of pods.

The bounds notice a way that grows without anybody deciding so. They are no goals: don't shorten code to keep them.
"""

import re

from hack.event_path import ROOT, EventPath, trace_creation, trace_failure

MOST_FILES_OF_A_FAILURE = 61
MOST_FILES_OF_A_CREATION = 75
MOST_CHANGES_OF_THREADS = 4
MOST_LINES = 500
"""The lines of a file."""

SOMETIMES = {"tfoperator/api/defaults.py"}
"""Files that are on the way only if the job's own update, which follows each write of its status, came first."""


def is_short(path: EventPath, most_files: int) -> None:
    assert "tfoperator/controller/controller.py" in path.files, f"{path}"
    assert len(path.files) <= most_files, f"{path}"
    assert len(path.threads) - 1 <= MOST_CHANGES_OF_THREADS, f"{path}"
    assert not [file for file, lines in path.files.items() if lines > MOST_LINES], f"{path}"


def described() -> set[str]:
    """The files that docs/houses/one-event.md names in its table of steps."""
    steps = (ROOT / "docs/houses/one-event.md").read_text().partition("\n## The steps\n")[2].partition("\n## ")[0]
    return {f"tfoperator/{name}" for name in re.findall(r"`([\w/]+\.py)`", steps)}


def test_the_way_of_a_failed_pod_to_its_successor_is_short_and_described() -> None:
    path = trace_failure()
    is_short(path, MOST_FILES_OF_A_FAILURE)
    assert described() - SOMETIMES <= set(path.files) <= described(), f"{path}"


def test_the_way_of_a_job_to_its_many_pods_is_short() -> None:
    is_short(trace_creation(12), MOST_FILES_OF_A_CREATION)
