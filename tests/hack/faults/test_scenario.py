import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Condition

import pytest

from hack.faults import cli
from hack.faults.injection.clock import Origin, ScaledClock
from hack.faults.injection.injector import EVENT_FAULTS, REQUEST_FAULTS, EventFault
from hack.faults.plan.attachments import JOB_SERVICE, Attachments
from hack.faults.plan.scenario import make_scenario
from hack.faults.plan.steps import Act, JobShape, Profile
from tests.support.eventually import eventually
from tfoperator.api.fields.problems import Severity
from tfoperator.api.v1.types import decode_tfjob
from tfoperator.api.validation.manifest import validate_manifest

EMBEDDED, REAL = Profile(real=False, wall_speed=20.0), Profile(real=True, wall_speed=1.0)


@pytest.mark.parametrize("profile", [EMBEDDED, REAL])
def test_a_seed_makes_the_same_scenario_every_time_and_another_one_another(profile: Profile) -> None:
    assert make_scenario(1, profile) == make_scenario(1, profile)
    assert make_scenario(1, profile) != make_scenario(2, profile)


def test_a_few_hundred_seeds_leave_no_act_and_no_fault_out() -> None:
    scenarios = [make_scenario(seed, profile) for seed in range(300) for profile in (EMBEDDED, REAL)]
    steps, jobs = (
        [each for scenario in scenarios for each in some(scenario)] for some in (lambda s: s.steps, lambda s: s.jobs)
    )
    assert {step.act for step in steps} == set(Act)
    assert {kind for scenario in scenarios for kind in scenario.request_faults} == set(REQUEST_FAULTS)
    assert {kind for scenario in scenarios for kind in scenario.event_faults} == set(EVENT_FAULTS)
    on_wall_clocks = {kind for seed in range(300) for kind in make_scenario(seed, REAL).event_faults}
    assert on_wall_clocks == set(EVENT_FAULTS) - {EventFault.LOSE}
    assert {kind for job in jobs for kind in job.replicas} == {"Chief", "Master", "Worker", "PS", "Evaluator"}
    assert {scenario.operators for scenario in scenarios} == {1, 2}
    assert {step.value for step in steps if step.act is Act.DELETE_BOUND_POD} == {None, "evict"}
    assert {job.min_succeeded for job in jobs} == {None, 1, 2, "50%", "100%"}
    assert {job.max_failed for job in jobs} == {None, 0, 1, 2, "50%"}
    assert {scenario.attachments.gang for scenario in scenarios} == {"", "volcano", "coscheduler"}
    assert {job.run_policy.get("restartScope") for job in jobs} == {None, "Job"}
    assert {bool(job.tensorboard) for job in jobs} == {False, True}
    assert {job.run_policy.get("onStall") for job in jobs} == {None, "Report", "Restart", "Fail"}
    networks = ("PerJob", "PerReplica")
    assert {job.network for job in jobs} == {"", *networks}
    assert {scenario.default_networks for scenario in scenarios} == {
        *((network,) for network in networks),
        networks,
        networks[::-1],
    }
    assert {job.sidecar for job in jobs} == {False, True}
    assert JOB_SERVICE in {step.value for step in steps if step.act is Act.CREATE_FOREIGN}


def test_attachments_and_stalls_leave_the_jobs_and_steps_of_a_seed_as_they_were() -> None:
    for seed in range(100):
        plain, full = make_scenario(seed, EMBEDDED, plain=True), make_scenario(seed, EMBEDDED)
        assert plain.attachments == Attachments()
        assert [without_additions(job) for job in full.jobs] == list(plain.jobs)
        left = iter(full.steps)
        assert all(step in left for step in plain.steps)
        if full.attachments == Attachments() and not any(job.reports for job in full.jobs):
            assert [step for step in full.steps if step.value != JOB_SERVICE] == list(plain.steps)


def without_additions(job: JobShape) -> JobShape:
    added = ("restartScope", "progressDeadlineSeconds", "onStall")
    policy = {name: value for name, value in job.run_policy.items() if name not in added}
    plain = replace(job, run_policy=policy, reports=False, sidecar=False)
    return replace(plain, tensorboard=None, scheduling=None, cpu="", network="")


@pytest.mark.parametrize("profile", [EMBEDDED, REAL])
def test_the_stalls_of_a_seed_are_the_same_on_both_servers_and_their_deadlines_fit_their_clocks(
    profile: Profile,
) -> None:
    seeds: dict[str, set[int]] = {"over": set(), "kept": set()}
    for seed in range(200):
        scenario, other = make_scenario(seed, profile), make_scenario(seed, REAL if profile is EMBEDDED else EMBEDDED)
        # Which job has a deadline, and what follows from it, does not depend on the server.
        assert [job.run_policy.get("onStall") for job in scenario.jobs] == [
            job.run_policy.get("onStall") for job in other.jobs
        ]
        for step in scenario.steps:
            if step.act is not Act.REPORT or step.after < 1:
                continue
            real_seconds = scenario.jobs[step.job].run_policy["progressDeadlineSeconds"] / profile.wall_speed
            seeds["over" if step.after > real_seconds else "kept"].add(seed)
    assert seeds["over"]
    assert seeds["kept"]


def test_a_server_without_pod_groups_has_no_gangs_and_only_one_that_can_be_restarted_is() -> None:
    without = Profile(real=True, wall_speed=1.0, gangs=False)
    assert {make_scenario(seed, without).attachments.gang for seed in range(100)} == {""}
    embedded = {step.act for seed in range(300) for step in make_scenario(seed, EMBEDDED).steps}
    assert not embedded & {Act.RESTART_API, Act.PAUSE_ETCD}


def test_every_job_of_a_scenario_is_valid() -> None:
    for seed in range(100):
        for job in make_scenario(seed, EMBEDDED).jobs:
            manifest = job.manifest()
            problems = validate_manifest(manifest)
            assert [str(problem) for problem in problems if problem.severity is Severity.ERROR] == []
            assert decode_tfjob(json.dumps(manifest).encode()).decode_error == ""


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
        # Ten seconds of this clock are a hundredth of a real second.
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
    # A plan can't come to rest in no time.
    assert cli.main(["--seed", "3", "--patience", "-1"]) == 1
    out = capsys.readouterr().out
    assert "failing seeds: 3" in out
    assert "python -m hack.faults --server embedded --seed 3" in out
    assert "what the API server says:" in out


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder in which sockets can be: the path of one has at most 107 characters, pytest's own are too long."""
    with tempfile.TemporaryDirectory(prefix="tfo-") as folder:
        yield Path(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_is_told_to_end_leaves_no_process_and_no_folder(
    short_path: Path, number: signal.Signals, jobs: int
) -> None:
    with under_way(short_path, jobs) as run:
        run.send_signal(number)
        assert run.wait(30) == 130
    assert list(short_path.iterdir()) == []


def test_operators_end_with_a_run_that_was_killed(short_path: Path) -> None:
    with under_way(short_path):
        pass


@contextmanager
def under_way(folder: Path, jobs: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    """Runs whose operators work; killed on leaving the block, which waits until all of their processes have ended."""
    marker = f"TFOPERATOR_TEST_RUN={folder}"
    name, _, value = marker.partition("=")
    command = [sys.executable, "-m", "hack.faults", "--seed", "3", "--count", "500", "--jobs", str(jobs)]
    environment = {**os.environ, name: value, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        try:
            # Runners, fork servers and at least one operator for each.
            eventually(lambda: len(processes_with(marker)) >= 1 + 3 * jobs, within=30, what="operators run")
            yield run
        finally:
            run.kill()
    eventually(lambda: processes_with(marker) == [], what="all processes are gone")


def processes_with(variable: str) -> list[int]:
    """The processes that were started with this variable in their environment, zombies left out."""
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    pids.append(int(folder.name))
            except OSError:
                continue  # it is gone, or not ours
    return pids
