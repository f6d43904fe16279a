from __future__ import annotations

import json

import pytest

from hack.bench.__main__ import schedule
from hack.bench.contestants import CONTESTANTS
from hack.bench.loads import LOADS, job_manifest
from tfoperator.api.v1.types import decode_tfjob
from tfoperator.api.validation import validate


def test_repetitions_are_interleaved_and_begin_with_another_contestant_each_time() -> None:
    two = [CONTESTANTS["peer-tuned"], CONTESTANTS["ours"]]
    order = schedule([LOADS["small"]], two, 2, all_of_them=False)
    assert [(repetition, one.name) for repetition, _, one in order] == [
        (0, "peer-tuned"),
        (0, "ours"),
        (1, "ours"),
        (1, "peer-tuned"),
    ]


def test_what_a_rate_limit_holds_back_sits_out_heavy_loads_unless_named() -> None:
    everybody = [one for one in CONTESTANTS.values() if not one.on_request]
    heavy = [one.name for _, _, one in schedule([LOADS["large"]], everybody, 1, all_of_them=False)]
    assert heavy == ["peer-tuned", "ours", "floor"]
    assert len(schedule([LOADS["large"]], everybody, 1, all_of_them=True)) == len(everybody)


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_every_load_is_a_valid_job(load: object) -> None:
    from hack.bench.loads import Load

    assert isinstance(load, Load)
    assert not validate(decode_tfjob(json.dumps(job_manifest(load, "bench-0000")).encode()))


@pytest.mark.parametrize("name", LOADS)
def test_a_small_scale_keeps_what_a_load_is_about(name: str) -> None:
    whole, small = LOADS[name], LOADS[name].scaled(0.01)
    assert 2 <= small.pods < whole.pods
    assert (small.jobs > 1) == (whole.jobs > 1)
    assert bool(small.churn_rounds) == bool(whole.churn_rounds)
    assert bool(small.idle_seconds) == bool(whole.idle_seconds)
    assert small.finishes == whole.finishes
