"""The search of the examples, with TensorFlow: killed in the middle, and gone on with."""

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from tests.support.cli import CliProcess, local_cli
from tests.support.cluster import decode
from tfoperator.api import TFJob
from tfoperator.kube.protocol.resources import EVENTS
from tfoperator.sdk import TFJobClient

LIMIT = 900  # seconds for half of the trials; they take 15 on an idle machine of 2 cores
TRIALS = 10
pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(2 * LIMIT + 60)]

SEARCH = Path(__file__).parents[2] / "examples/search/search.py"


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    with local_cli(tmp_path) as cli:
        yield cli.environment


def test_a_killed_search_goes_on_without_a_trial_done_twice(tmp_path: Path, environment: dict[str, str]) -> None:
    def search() -> CliProcess:
        return CliProcess([sys.executable, str(SEARCH), f"--trials={TRIALS}"], tmp_path, environment)

    def trials(*states: TrialState) -> list[optuna.trial.FrozenTrial]:
        study = optuna.load_study(study_name="search", storage=f"sqlite:///{tmp_path}/search.db")
        return study.get_trials(states=states or None)

    def jobs() -> dict[str, TFJob]:
        return {job.metadata.name: job for job in client.list_jobs()}

    with TFJobClient(config_file=environment["KUBECONFIG"]) as client:
        with search() as first:
            first.until("trial 2: ", within=LIMIT)
            first.end(signal.SIGKILL)
        in_flight = {f"search-{trial.number}" for trial in trials(TrialState.RUNNING)}
        assert in_flight
        before = jobs()

        with search() as second:
            assert second.wait(LIMIT) == 0, second.output
        after = jobs()
        created = Counter(
            event["involvedObject"]["name"]
            for event in client.api.list(EVENTS, "default", decode).items
            if event["reason"] == "SuccessfulCreatePod"
        )

    assert created == {f"search-{number}": 1 for number in range(TRIALS)}
    assert all(after[name].metadata.uid == before[name].metadata.uid for name in before.keys() & after.keys())
    complete, pruned = trials(TrialState.COMPLETE), trials(TrialState.PRUNED)
    assert (len(complete) + len(pruned), len(trials())) == (TRIALS, TRIALS)
    assert set(after) == {f"search-{trial.number}" for trial in complete}  # the jobs of the others are gone

    measured = {}
    for name, job in after.items():
        assert job.status.progress is not None
        [accuracy] = [float(metric.value) for metric in job.status.progress.metrics if metric.name == "accuracy"]
        measured[name] = accuracy
    assert measured == {f"search-{trial.number}": trial.value for trial in complete}
    best = max(complete, key=lambda trial: trial.value or 0)
    assert measured[f"search-{best.number}"] >= 0.5, "of ten digits: what has learnt nothing has 0.1"
    assert f"best: trial {best.number}, accuracy {best.value:.3f}" in second.output
