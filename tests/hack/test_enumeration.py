"""The enumeration itself: a world is the same each time, faults come to their places, what they cause is told."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hack.enumeration import cli
from hack.enumeration.sieve.points import GROUPS, points, thinned
from hack.enumeration.sieve.runner import Results, find, play
from hack.enumeration.sieve.scenarios import SCENARIOS
from hack.enumeration.world.fault import Fault, How
from hack.enumeration.world.world import World
from tfoperator.controller.ledger import cache_lag

SMALL = find("one worker")
_PRINT = "from tests.hack.test_enumeration import digests; print(digests())"


def digests() -> str:
    worlds = [World(find(name)) for name in ("the same name again", "gang of Volcano")]
    played = [(one.play(), msgspec.json.encode(one.recorder.entries()))[1] for one in worlds]
    return hashlib.sha256(b"".join(played)).hexdigest()


def test_a_world_is_the_same_each_time_and_in_each_process() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in (1, 2)
    ]
    assert told == [digests()] * 2


def test_every_scenario_comes_to_its_end_without_a_fault() -> None:
    assert {one.name: World(one).play().violations for one in SCENARIOS} == {one.name: [] for one in SCENARIOS}


def test_every_point_of_a_small_scenario_is_reached_and_none_is_violated() -> None:
    recorded = World(SMALL).play()
    every = points(recorded)
    assert len(set(every)) == len(every)
    assert {fault.how for fault in every} == set(GROUPS)
    assert {fault.at for fault in every if fault.how is How.CRASH_AFTER} == set(range(1, len(recorded.writes) + 1))
    assert {(fault.kind, fault.revision) for fault in every if fault.how is How.LOST_EVENT} == set(recorded.events)
    tried = [play(SMALL, fault) for fault in every]
    assert [(one.fault, one.violations) for one in tried if one.violations or not one.reached] == []


def test_a_quick_run_has_some_of_each_group() -> None:
    every = points(World(SMALL).play())
    kept = thinned(every, 4)
    assert set(kept) < set(every)
    assert {fault.how for fault in kept} == set(GROUPS)


@pytest.mark.parametrize(
    ("name", "at", "revision", "unasked", "told"),
    [
        ("PS and workers", 12, 12, "deciding_pods", "pod job-0-worker-1 is restart 2, there were at most 1 losses"),
        ("whole-job restart", 10, 4, "created_pods", "pod job-0-ps-0 of restart 1 was made beside job-0-worker-0"),
        ("OnFailure", 8, 8, "differs", "Worker-0 counts 3 restarts, there were at most 2"),
    ],
)
def test_an_old_list_deceives_an_operator_that_does_not_ask_and_is_told_with_its_history(
    name: str,
    at: int,
    revision: int,
    unasked: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fault = Fault(How.OLD_LIST, at, "Pod", revision)
    assert play(find(name), fault).violations == ()
    monkeypatch.setattr(cache_lag, unasked, lambda *_: ())
    assert play(find(name), fault).violations[0].startswith(f"doubled: job-0: {told}")
    point = msgspec.json.encode(fault).decode()
    assert cli.main(["--scenario", name, "--point", point]) == 1
    assert told in capsys.readouterr().out


def test_results_are_continued_by_the_same_code_alone(tmp_path: Path) -> None:
    path, tried = tmp_path / "results.jsonl", play(SMALL, Fault(How.CRASH_AFTER, 1))
    Results(path, "code").add([tried])
    with path.open("ab") as file:
        file.write(b'{"scenario": "one wor')  # the run was interrupted
    assert Results(path, "code").tried == {(SMALL.name, tried.fault): tried}
    assert Results(path, "other code").tried == {}
