import json
from pathlib import Path
from typing import Any

import pytest

from hack.bench.__main__ import main, schedule
from hack.bench.contestants import CONTESTANTS, Contestant
from hack.bench.loads import LOADS, Load, job_manifest
from hack.bench.run import EXEMPT, Result
from tfoperator.api.v1.types import decode_tfjob
from tfoperator.api.validation.job import validate


def test_repetitions_are_interleaved_and_begin_with_another_contestant_each_time() -> None:
    two = [CONTESTANTS["peer-tuned"], CONTESTANTS["ours"]]
    order = schedule([LOADS["small"]], two, 2, all_of_them=False)
    named = [(repetition, contestant.name) for repetition, _, contestant in order]
    assert named == [(0, "peer-tuned"), (0, "ours"), (1, "ours"), (1, "peer-tuned")]


def test_what_a_rate_limit_holds_back_sits_out_heavy_loads_unless_named() -> None:
    everybody = [contestant for contestant in CONTESTANTS.values() if not contestant.on_request]
    heavy = [contestant.name for _, _, contestant in schedule([LOADS["large"]], everybody, 1, all_of_them=False)]
    assert heavy == ["peer-tuned", "ours", "floor"]
    assert len(schedule([LOADS["large"]], everybody, 1, all_of_them=True)) == len(everybody)


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_every_load_is_a_valid_job(load: object) -> None:
    assert isinstance(load, Load)
    assert not validate(decode_tfjob(json.dumps(job_manifest(load, "bench-0000")).encode()))


@pytest.mark.parametrize(
    ("arguments", "quiet"),
    [(["--quick", "--loads", "small"], "loads of its own"), (["--quick", "--scale", "2"], "not allowed")],
)
def test_quick_has_loads_and_sizes_of_its_own(
    arguments: list[str], quiet: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert quiet in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "measured"),
    [([], ["small"]), (["--exempt"], ["small", "small-exempt"]), (["--exempt", "only"], ["small-exempt"])],
)
def test_everybody_is_measured_exempt_if_asked_to(
    value: list[str], measured: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pretend(contestant: Contestant, load: Load, repetition: int, _: object, **how: Any) -> Result:
        name = f"{load.name}{EXEMPT if how['exempt'] else ''}"
        return Result(name, load.title, load.jobs, contestant.name, repetition, {"calls": 7.0})

    monkeypatch.setattr("hack.bench.__main__.run", pretend)
    monkeypatch.setattr("hack.gobuild.build", lambda *_: [])
    arguments = ["--loads", "small", "--contestants", "floor", "--repetitions", "1", "--no-plot", "--out"]
    assert main([*arguments, str(tmp_path), *value]) == 0
    written = json.loads((tmp_path / "bench.json").read_text())
    assert [run["load"] for run in written["runs"]] == measured
