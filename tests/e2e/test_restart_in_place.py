"""`restartMode: InPlace` on the control plane of this machine: a job's record is the same as with recreation."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Cli, replica, tfjob

CASES: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "signalled": ("ExitCode", (130, 130, 0), {}),
    "fails": ("OnFailure", (3, 3, 0), {}),
    "for-good": ("ExitCode", (137, 1), {}),
    "limited": ("ExitCode", (130, 130, 130, 0), {"backoffLimit": 2}),
    "not-allowed": ("ExitCode", (130, 0), {"backoffLimit": 0}),
}
RUNS = {"limited": 3, "not-allowed": 1}
"""The runs of jobs that end before their programs have had all."""


def program(name: str, exits: tuple[int, ...]) -> str:
    """A script that exits with these codes, one after the other; the number of its runs is in a file."""
    count = f"n=$(cat {name}.runs 2>/dev/null || echo 1); echo $((n+1)) > {name}.runs; echo run $n"
    return f"{count}; set -- {' '.join(map(str, exits))}; shift $((n-1)); exit $1"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The directory of one run of all the jobs in each mode."""
    folders = {}
    for mode in ("InPlace", "Recreate"):
        cli = Cli(tmp_path_factory.mktemp(mode))
        jobs = []
        for name, (policy, exits, run_policy) in CASES.items():
            worker = replica("sh", "-c", program(name, exits), restart=policy)
            jobs.append(tfjob(name, run_policy={"restartMode": mode, **run_policy}, Worker=worker))
        cli.run("run", cli.write(*jobs), "--logs-dir", "kept", code=1)
        folders[mode] = cli.folder / "kept"
    return folders


def account(folder: Path, name: str) -> dict[str, Any]:
    status = yaml.safe_load((folder / f"default.{name}.yaml").read_text())["status"]
    logs = sorted((folder / "logs" / "default" / f"{name}-worker-0" / "tensorflow").iterdir())
    # Others are false in the end, if they were ever seen to be true.
    conditions = {
        condition["type"]: (condition["reason"], condition["message"])
        for condition in status["conditions"]
        if condition["status"] == "True"
    }
    return {
        "conditions": conditions,
        "restarts": status.get("restarts", 0),
        "replicas": status["replicaStatuses"],
        "logs": [log.read_text() for log in logs],
    }


@pytest.mark.parametrize("name", CASES)
def test_a_job_ends_as_by_recreation_with_the_log_of_each_run(runs: dict[str, Path], name: str) -> None:
    policy, exits, _ = CASES[name]
    here, anew = account(runs["InPlace"], name), account(runs["Recreate"], name)
    assert here == anew
    ran = RUNS.get(name, len(exits))
    assert here["logs"] == [f"run {number}\n" for number in range(1, ran + 1)]
    assert here["restarts"] == ran - 1
    assert ("Succeeded" in here["conditions"]) == (name in ("signalled", "fails"))
    made = [line for line in events(runs["InPlace"], name) if "SuccessfulCreatePod" in line]
    assert len(made) == 1, "the pod stayed"
    restarted = [line for line in events(runs["InPlace"], name) if "TFJobRestarting" in line]
    assert bool(restarted) == (ran > 1)
    for mode in runs:
        # Under OnFailure kubelets restart containers in place whatever the mode is.
        in_place = ran > 1 and (mode == "InPlace" or policy == "OnFailure")
        last = [(ran - 1, exits[ran - 2])] if in_place else []
        assert restarts_told(runs[mode], name)[-1:] == last


def restarts_told(folder: Path, name: str) -> list[tuple[int, int]]:
    """Return for each event about restarts in place the number of the last of them, and its exit code.

    Two that follow each other at once may be one event.
    """
    pattern = (
        rf"worker-0 is restarted in place: restarts? (?:\d+ to )?(\d+) in pod {name}-worker-0, last exit code (\d+)"
    )
    matches = (re.search(pattern, line) for line in events(folder, name))
    return [(int(match[1]), int(match[2])) for match in matches if match]


def events(folder: Path, name: str) -> list[str]:
    return [line for line in (folder / "events.txt").read_text().splitlines() if f"tfjob/{name}:" in line]
