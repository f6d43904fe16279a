from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from threading import Condition

import pytest

from hack.faults import cli
from hack.faults.clock import Origin, ScaledClock
from hack.faults.scenario import Act, Profile, make_scenario
from hack.faults.weather import EVENT_FAULTS, REQUEST_FAULTS
from tfoperator.api.v1.types import decode_tfjob
from tfoperator.api.validation import validate_manifest

EMBEDDED, REAL = Profile(real=False, wall_speed=20.0), Profile(real=True, wall_speed=1.0)


@pytest.mark.parametrize("profile", [EMBEDDED, REAL])
def test_a_seed_makes_the_same_scenario_every_time_and_another_one_another(profile: Profile) -> None:
    assert make_scenario(1, profile) == make_scenario(1, profile)
    assert make_scenario(1, profile) != make_scenario(2, profile)


def test_a_few_hundred_seeds_leave_no_act_and_no_fault_out() -> None:
    scenarios = [make_scenario(seed, profile) for seed in range(300) for profile in (EMBEDDED, REAL)]
    assert {step.act for one in scenarios for step in one.steps} == set(Act)
    assert {kind for one in scenarios for kind in one.request_faults} == set(REQUEST_FAULTS)
    assert {kind for one in scenarios for kind in one.event_faults} == set(EVENT_FAULTS)
    kinds = Counter(kind for one in scenarios for job in one.jobs for kind in job.replicas)
    assert set(kinds) == {"Chief", "Master", "Worker", "PS", "Evaluator"}
    assert {one.operators for one in scenarios} == {1, 2}


def test_every_job_of_a_scenario_is_valid() -> None:
    for seed in range(100):
        for job in make_scenario(seed, EMBEDDED).jobs:
            manifest = job.manifest()
            assert [str(problem) for problem in validate_manifest(manifest)] == []
            assert decode_tfjob(json.dumps(manifest).encode()).decode_error == ""


def test_only_a_server_that_can_be_restarted_is() -> None:
    embedded = {step.act for seed in range(300) for step in make_scenario(seed, EMBEDDED).steps}
    assert not embedded & {Act.RESTART_API, Act.PAUSE_ETCD}


def test_a_scaled_clock_runs_ahead_and_its_wall_clock_can_be_stepped() -> None:
    offset = [0.0]
    origin = Origin(monotonic=0.0, wall=1_000_000_000.0, speed=1000.0, wall_speed=0.0)
    clock = ScaledClock(origin, lambda: offset[0])
    assert clock.now() == datetime.fromtimestamp(1_000_000_000, UTC)
    offset[0] = -60.0
    assert clock.now() == datetime.fromtimestamp(1_000_000_000, UTC) - timedelta(seconds=60)
    began = clock.monotonic()
    condition = Condition()
    with condition:
        assert not clock.wait_until(condition, began)
        # Ten seconds are a hundredth of a real one.
        while clock.wait_until(condition, began + 10):
            pass
    assert clock.monotonic() >= began + 10


def test_the_command_line_plays_a_seed_and_says_how_it_went(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--seed", "3", "--count", "1"]) == 0
    out = capsys.readouterr().out
    assert "1 plans on the embedded server" in out
    assert "0 lost, 0 doubled, 0 stuck, 0 wrong" in out


def test_a_violation_is_told_with_its_history_and_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Nothing can come to rest in no time.
    assert cli.main(["--seed", "3", "--patience", "-1"]) == 1
    out = capsys.readouterr().out
    assert "failing seeds: 3" in out
    assert "python -m hack.faults --server embedded --seed 3" in out
    assert "what the API server says:" in out
