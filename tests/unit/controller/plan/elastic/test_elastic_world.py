"""An elastic job in a cluster whose capacity changes at random, under an operator that dies between its writes."""

import random
from datetime import timedelta
from itertools import pairwise

import pytest

from hack.elastic_world import START_SECONDS, STOP_SECONDS, ElasticWorld, elastic_job, random_capacities
from tests.support.plan_options import plan_options

POLICY = {"minReplicas": 2, "maxReplicas": 6, "shrinkAfterSeconds": 60, "growAfterSeconds": 600}
OPTIONS = plan_options(restart_delay_base=10.0, restart_delay_cap=60.0)
HOURS = 2
BOUND = 60 + OPTIONS.restart_delay_cap + 2 * (START_SECONDS + STOP_SECONDS) + 30
"""Seconds: the wait for room, the longest delay after disruptions, two restarts, and the syncs after deaths."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("announced", [True, False], ids=["announced", "sudden"])
def test_an_elastic_job_keeps_its_limits_and_is_at_work_again_soon_after_capacity_returns(
    seed: int, announced: bool
) -> None:
    capacity = random_capacities(seed, HOURS * 3600, 7)
    world = ElasticWorld(job=elastic_job(5, POLICY), options=OPTIONS, announced=announced, deaths=random.Random(seed))
    idle_for = 0
    while world.seconds < HOURS * 3600:
        before = world.capacity
        world.capacity = capacity(world.seconds)
        world.tick()
        assert len(world.at_work) <= POLICY["maxReplicas"]
        assert world.trained_with in (0, 2, 3, 4, 5), f"at {world.seconds}: trains with {world.trained_with}"
        could_train = world.capacity >= POLICY["minReplicas"] and world.capacity >= before
        idle_for = idle_for + 1 if could_train and not world.is_training else 0
        assert idle_for <= BOUND, (
            f"at {world.seconds}: room for {world.capacity} for {idle_for} seconds, but the job does not train\n"
            + "\n".join(world.events[-12:])
        )
    _grows_seldom(world)
    if announced:
        assert world.lost_steps == 0
    assert world.job.status.restarts == world.job.status.disruptions, "no change of size and no loss is a failure"


def _grows_seldom(world: ElasticWorld) -> None:
    grown = [time for (time, size), (_, before) in zip(world.sizes[1:], world.sizes, strict=False) if size > before]
    for earlier, later in pairwise(grown):
        assert later - earlier >= timedelta(seconds=POLICY["growAfterSeconds"] - 1)


@pytest.mark.parametrize("dies", [False, True])
def test_each_change_of_size_records_for_how_long_the_job_did_not_train(dies: bool) -> None:
    deaths = random.Random(3) if dies else None
    world = ElasticWorld(job=elastic_job(3, POLICY), options=OPTIONS, deaths=deaths)
    untrained: list[int] = []
    changes = 0
    while world.seconds < 3600:
        world.capacity = 2 if 600 <= world.seconds < 1200 else 3
        world.tick()
        elastic = world.job.status.elastic
        if elastic is not None and elastic.changes > changes:
            changes = elastic.changes
            untrained.append(0)
        if untrained and not world.is_training:
            untrained[-1] += 1
    resizes = world.job.status.elastic.resizes
    assert [(resize.before, resize.workers) for resize in resizes] == [(3, 2), (2, 3)]
    for resize, seconds in zip(resizes, untrained, strict=True):
        assert resize.untrained_seconds == pytest.approx(seconds, abs=3), "of whole seconds, and of a late operator"
        assert resize.untrained_seconds >= START_SECONDS
        assert f"{resize.before} to {resize.workers} at " in resize.text()
        assert resize.text().endswith(f": {resize.untrained_seconds} s without training")
