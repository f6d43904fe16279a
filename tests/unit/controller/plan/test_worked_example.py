"""The worked example of a new rule in CONTRIBUTING.md: one file, and one row of the table of what wins."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.controller.builders import (
    NOW,
    OPTIONS,
    after,
    make_job,
    make_pod,
    plan_for,
    services_of,
    started,
    with_status,
)
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan import combine
from tfoperator.controller.plan.facts.proposal import PrecedenceRow
from tfoperator.controller.plan.values.observed import Observed

PAGE = Path(__file__).parents[4] / "CONTRIBUTING.md"
ANNOTATION = "example.com/keep"
PODS = (make_pod("Worker-0", "Succeeded", exit_code=0), make_pod("Worker-1"))


def block(title: str) -> str:
    match = re.search(rf'^```python title="{re.escape(title)}"\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert match is not None, f"{PAGE.name} has no block {title!r}"
    return match[1]


def row_of_the_page() -> PrecedenceRow:
    names: dict[str, Any] = {"PrecedenceRow": PrecedenceRow, "__name__": "kept"}
    exec(block("tfoperator/controller/plan/objects/kept.py"), names)  # noqa: S102 - a page of ours
    row = eval(block("a row of PRECEDENCE"), names)  # noqa: S307 - a page of ours
    assert isinstance(row, PrecedenceRow)
    return row


def job(annotations: dict[str, str]) -> TFJob:
    plain = started(make_job({"Worker": 2}, runPolicy={"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60}))
    metadata = msgspec.structs.replace(plain.metadata, annotations=annotations)
    return msgspec.structs.replace(plain, metadata=metadata)


def ended(kept: bool, seconds: float) -> tuple[list[str], bool, float | None]:
    """The pods that are deleted so long after the end of a job, whether the job is, and when it is looked at again."""
    running = job({ANNOTATION: "yes"} if kept else {})
    status = plan_for(Observed(running, PODS, services_of(running))).status
    assert status.completion_time == NOW
    finished = Observed(with_status(running, status), PODS, services_of(running))
    plan = plan_for(finished, after(seconds), OPTIONS)
    return plan.deleted_pods, plan.deletes_job, plan.requeue_after


def test_a_job_that_is_kept_is_not_cleaned_up_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(True, 10)[0] == ["Worker-0", "Worker-1"], "without the row nothing keeps it"
    monkeypatch.setattr(combine, "PRECEDENCE", (row_of_the_page(), *combine.PRECEDENCE))
    assert ended(False, 10)[0] == ["Worker-0", "Worker-1"]
    assert ended(True, 10) == ([], False, 50.0)
    assert ended(True, 100) == ([], False, 3500.0)
    assert ended(True, 3601)[1], "its time to live is over, too"
