"""`tfoperator mcp` as agents use it: by the client of the package `mcp`, over stdin and stdout."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.support.agent import answer, converse
from tests.support.broken_jobs import BROKEN_JOBS, BrokenJob
from tests.support.cluster import decode
from tests.support.eventually import eventually
from tests.support.jobs import write_kubeconfig
from tests.support.local_cluster import cluster
from tfoperator.api.v1.types import TFJOBS
from tfoperator.cli.commands.agents.bounded import text_of
from tfoperator.cli.views.jobs import event_summary
from tfoperator.local.controlplane import ControlPlane
from tfoperator.sdk import TFJobClient

__all__ = ["cluster"]

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
LOG_LINES = 1000
SAME = 0.1
"""The share by which a length may differ from the page: times and addresses in messages differ from run to run."""


def characters_without(client: TFJobClient, job: BrokenJob) -> int:
    """The characters of the job's conditions and events, and of 1,000 log lines of the replica that failed first."""
    stored: dict[str, Any] = client.api.get(TFJOBS, "default", job.name, decode)
    events = [event_summary(event) for event in client.get_job_events(job.name)]
    which = {"replica_type": "worker", "replica_index": int((job.first or "worker-0").rpartition("-")[2])}
    logs = client.get_job_logs(job.name, tail_lines=LOG_LINES, **which)
    return (
        len(json.dumps(stored["status"].get("conditions", []))) + len(json.dumps(events)) + sum(map(len, logs.values()))
    )


def is_broken(client: TFJobClient, job: BrokenJob) -> bool:
    """Whether the job has failed, or shows why it waits."""
    found = client.get_job(job.name)
    return found.state.word == "Failed" or job.cause in found.state.message


@pytest.mark.journey
def test_one_call_has_the_cause_of_each_of_twelve_broken_jobs(cluster: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", cluster.endpoint.kubeconfig(), "default")
    client = TFJobClient(client=cluster.client, namespace="default")
    for job in BROKEN_JOBS:
        client.create_job(job.manifest())
    for job in BROKEN_JOBS:
        eventually(lambda job=job: is_broken(client, job), within=120, every=0.1, what=job.name)  # type: ignore[misc]

    async def explain_each(agent: Client) -> dict[str, dict[str, Any]]:
        return {job.name: await answer(agent, "explain", job=job.name) for job in BROKEN_JOBS}

    explained = converse(tmp_path, talk=explain_each, KUBECONFIG=str(kubeconfig))
    rows = []
    for job in BROKEN_JOBS:
        found = explained[job.name]
        assert job.cause in found["cause"], found
        assert job.next_step in " ".join(found.get("nextSteps", ())), found
        assert found.get("firstFailure", {}).get("replica", "") == job.first, found
        rows.append((job.broken, len(text_of(found)), characters_without(client, job)))
    check_table(rows)


def check_table(rows: list[tuple[str, int, int]]) -> None:
    """Compare the table of docs/agents.md with what was counted."""
    wanted = "\n".join(f"| {broken} | {short:,} | {long:,} |" for broken, short, long in rows)
    cells = re.findall(r"^\| ([^|]+) \| ([\d,]+) \| ([\d,]+) \|$", PAGE.read_text(), re.MULTILINE)
    told = {broken: (int(short.replace(",", "")), int(long.replace(",", ""))) for broken, short, long in cells}
    assert list(told) == [broken for broken, _, _ in rows], wanted
    for broken, *counted in rows:
        for page, now in zip(told[broken], counted, strict=True):
            assert abs(page - now) <= SAME * now, wanted
