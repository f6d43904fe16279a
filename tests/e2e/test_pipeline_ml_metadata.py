"""The records of pipelines, opened by ML Metadata's own library, which knows nothing of us."""

import json
import subprocess
from pathlib import Path

import pytest

from hack import strangers
from hack.postgres import USER, PostgresServer
from tests.support.cli import Cli
from tests.support.services import postgres, postgres_process

__all__ = ["postgres", "postgres_process"]

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests/contract/strangers/ml_metadata_reader.py"
STEPS = ["Data", "Evaluate", "Train.distributed", "Train.single"]
SAMPLES, MODEL = ["INPUT", ["samples", 0], "Examples"], ["OUTPUT", ["model", 0], "Model"]


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_ml_metadata_opens_the_records_of_a_pipeline_that_ran_twice(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    home, words = "home", ["", str(tmp_path / "home/metadata.db")]
    if engine == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        home = f"{server.database('strange')}?folder={tmp_path}/home"
        words = ["127.0.0.1", str(server.port), USER, server.password, "strange"]
    # Threads that wait in loops starve on a busy machine.
    cli = Cli(tmp_path, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    example = ["pipeline", "run", str(ROOT / "examples/pipeline/digits.py"), "--platform", "in-process"]
    for _ in range(2):
        cli.run(*example, "--param", "in_process=true", "--home", home, code=0)

    command = [strangers.find(strangers.ML_METADATA), SCRIPT, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)

    assert list(answer["runs"].values()) == [["COMPLETE"] * 4, ["CACHED"] * 4]
    assert (answer["parents"], answer["nodes"]) == (["digits"] * 2, [f"digits.{step}" for step in STEPS])
    assert answer["events"] == [
        ["Data", "OUTPUT", ["samples", 0], "Examples"],
        ["Evaluate", "INPUT", ["first", 0], "Model"],
        ["Evaluate", *SAMPLES],
        ["Evaluate", "INPUT", ["second", 0], "Model"],
        ["Evaluate", "OUTPUT", ["report", 0], "ModelEvaluation"],
        *[["Train", *SAMPLES]] * 2,
        *[["Train", *MODEL]] * 2,
    ]
    assert answer["careful"] == [["Train", "CACHED"], ["Train", "COMPLETE"]]
    (first,) = [name for name, states in answer["runs"].items() if "COMPLETE" in states]
    assert answer["best"] == [[f"{tmp_path}/digits-root/Evaluate/report/{first}", "LIVE"]]
    # And it has left the records as they were for us.
    again = cli.run(*example, "--param", "in_process=true", "--home", home, "-o", "json", code=0)
    assert {step["state"] for step in json.loads(again.stdout)["steps"]} == {"cached"}
