"""A pipeline whose records are in PostgreSQL, while the server is away: for a while, and for too long."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.postgres import PostgresServer, postgres_server
from hack.s3_server import BUCKET
from tests.e2e.test_pipeline import PIPELINE, objects
from tests.support.cli import Cli
from tests.support.local_cluster import cli, cluster
from tests.support.services import s3, s3_variables
from tfoperator.local.controlplane import ControlPlane

__all__ = ["cli", "cluster", "s3", "s3_variables"]

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

AWAY_SECONDS = 20.0
"""As docs/reference/pipeline-records.md promises (25 s), with a margin for a busy machine."""


@pytest.fixture
def postgres(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    """A server whose writes survive its death."""
    with postgres_server(durable=True) as server:
        monkeypatch.setenv("PGPASSFILE", str(server.passfile))
        yield server


def test_a_run_survives_an_outage_of_its_records_and_a_longer_one_ends_its_runner_but_not_its_containers(
    postgres: PostgresServer, s3: object, cli: Cli, cluster: ControlPlane, tmp_path: Path
) -> None:
    text = PIPELINE.replace("echo ready", f"echo ready; echo began >> {tmp_path}/began")
    (tmp_path / "wait.py").write_text(text.replace("GO", str(tmp_path / "go")))
    home = f"{postgres.database('outages')}?folder=s3://{BUCKET}/logs"
    command = ["pipeline", "run", "wait.py", "--platform", "pods", "--home", home]
    with cli.start(*command) as process:
        process.until("ready")
        postgres.kill()
        time.sleep(AWAY_SECONDS)
        assert process.process.poll() is None
        postgres.start()
        assert "running" in cli.run("pipeline", "runs", "--home", home, code=0).stdout
        postgres.kill()
        assert process.wait(120) == 75
        assert "--resume" in process.output
    assert len(objects(cluster)) == 1
    postgres.start()
    (tmp_path / "go").touch()
    cli.run(*command, "--resume", "latest", code=0)
    log = cli.run("pipeline", "logs", "latest", "Wait", "--home", home, code=0).stdout
    assert ((tmp_path / "began").read_text(), "saved" in log, "went on" in log) == ("began\n", False, True)
    assert objects(cluster) == []
