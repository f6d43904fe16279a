"""The health check for Argo CD, and the table of docs/gitops.md.

`tests/hack/test_enumeration.py` runs the check over every recorded status.
"""

from pathlib import Path
from typing import Any

import pytest

from hack.faults.oracle.clients import kstatus_of
from tests.support.argo_health import HealthCheck
from tests.support.cluster import tfjob

STATES: list[tuple[str, str, dict[str, Any]]] = [
    ("Progressing", "Nothing is known of this job yet.", {}),
    ("Progressing", "Running=False", {"conditions": ["Created", "-Running"]}),
    ("Progressing", "Running=True", {"conditions": ["Created", "Running"], "operatorConditions": ["Straggling"]}),
    ("Progressing", "Restarting=True", {"conditions": ["Created", "-Running", "Restarting"]}),
    ("Suspended", "Suspended=True", {"conditions": ["Created", "-Running", "Suspended"]}),
    ("Suspended", "Admitted=False", {"conditions": ["Created"], "operatorConditions": ["-Admitted"]}),
    ("Degraded", "Stalled=True", {"conditions": ["Created", "Running"], "operatorConditions": ["Stalled"]}),
    ("Degraded", "Stalled=True", {"conditions": ["Stalled", "Created", "Running"]}),
    ("Degraded", "Running=Unknown", {"conditions": ["Created", "?Running"]}),
    ("Degraded", "Failed=True", {"conditions": ["Created", "-Running", "Failed"]}),
    (
        "Healthy",
        "Succeeded=True",
        {"conditions": ["Created", "-Running", "Succeeded"], "operatorConditions": ["-Ready"]},
    ),
]


def condition(text: str) -> dict[str, Any]:
    kind, status = text.lstrip("-?"), {"-": "False", "?": "Unknown"}.get(text[0], "True")
    return {"type": kind, "status": status, "message": f"{kind}={status}"}


def job(observed: int | None = 2, **lists: list[str]) -> dict[str, Any]:
    made = tfjob("mnist")
    made["metadata"]["generation"] = 2
    status: dict[str, Any] = {name: [condition(text) for text in texts] for name, texts in lists.items()}
    return {**made, "status": {**status, **({} if observed is None else {"observedGeneration": observed})}}


@pytest.mark.parametrize(("status", "message", "lists"), STATES)
def test_each_state_has_its_health_and_says_why(status: str, message: str, lists: dict[str, Any]) -> None:
    assert HealthCheck()(job(**lists)) == (status, message)


@pytest.mark.parametrize(
    ("observed", "lists", "status"),
    [
        (1, ["Created", "Running"], "Progressing"),
        (1, ["Created", "Suspended"], "Progressing"),
        (1, ["Created", "Failed"], "Degraded"),
        (None, ["Created", "Suspended"], "Suspended"),
    ],
)
def test_a_job_whose_last_change_nobody_has_seen_progresses(
    observed: int | None, lists: list[str], status: str
) -> None:
    health, message = HealthCheck()(job(observed, conditions=lists))
    assert health == status
    assert ("last change" in message) == (status == "Progressing")


def test_a_job_without_a_status_and_one_of_the_go_operator_have_a_health() -> None:
    check = HealthCheck()
    assert check(tfjob("mnist"))[0] == "Progressing"
    assert check(job(None, conditions=["Created", "Running"]))[0] == "Progressing"
    assert check(job(None, conditions=["Created", "Succeeded"]))[0] == "Healthy"


RUNS = ["Created", "Running"]
ROWS: dict[str, dict[str, Any]] = {
    "has just been created": tfjob("mnist"),
    "waits: for pods, nodes or images": job(conditions=["Created", "-Running"]),
    "runs, with all replicas or some": job(conditions=RUNS, operatorConditions=["-Ready", "Straggling"]),
    "restarts": job(conditions=["Created", "-Running", "Restarting"], operatorConditions=["-Ready"]),
    "is suspended": job(conditions=["Created", "-Running", "Suspended"], operatorConditions=["-Ready"]),
    "waits in a queue of Kueue": job(conditions=["Created", "-Running"], operatorConditions=["-Ready", "-Admitted"]),
    "makes no progress (`Stalled`)": job(conditions=RUNS, operatorConditions=["Ready", "Stalled"]),
    "ran, and an edit made its spec invalid": job(conditions=["Created", "?Running"], operatorConditions=["?Ready"]),
    "has succeeded": job(conditions=["Created", "-Running", "Succeeded"], operatorConditions=["-Ready"]),
    "has failed": job(conditions=["Created", "-Running", "Failed"], operatorConditions=["-Ready", "-Stalled"]),
    "was edited, and the operator has not seen the edit yet": job(1, conditions=RUNS, operatorConditions=["Ready"]),
    "was edited after the failure of the job, and the operator has not seen the edit yet": job(
        1, conditions=["Created", "Failed"]
    ),
}


def test_the_page_says_what_the_tools_see() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "gitops.md").read_text()
    header, _, *lines = [line for line in page.splitlines() if line.startswith("|")]
    assert header == "| the job | Helm with `--wait`, Flux, kpt | Argo CD with the health check |"
    rows = {
        cells[0]: tuple(cells[1:])
        for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    }
    check = HealthCheck()
    assert rows == {name: (kstatus_of(row), check(row)[0]) for name, row in ROWS.items()}
