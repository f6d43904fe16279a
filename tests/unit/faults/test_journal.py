from __future__ import annotations

from hack.faults.journal import Keeper
from hack.faults.weather import Weather
from tests.support.eventually import eventually
from tests.support.served import Served, served
from tests.unit.faults.test_proxy import behind
from tfoperator.api.v1.types import TFJOBS

__all__ = ["served"]


def test_the_gap_of_a_watch_that_is_away_has_no_end_until_it_is_back(served: Served) -> None:
    with behind(served, Weather("test", {}, {})) as there, Keeper(there.client, there.world.namespace) as keeper:
        there.create("before")
        eventually(lambda: keeper.current("TFJob"), what="the journal follows")
        there.proxy.cut()
        eventually(lambda: keeper.is_away, what="its watches are away")
        written = int(there.world.submit("meanwhile")["metadata"]["resourceVersion"])
        assert not keeper_is_whole(keeper, written)
        assert not keeper_is_whole(keeper, written + 1000)
        there.proxy.restore()
        eventually(lambda: not keeper.is_away, what="its watches are back")
        assert not keeper_is_whole(keeper, written)
        assert keeper_is_whole(keeper, written + 1000)
        assert [job["metadata"]["name"] for job in keeper.current("TFJob")] == ["before", "meanwhile"]


def test_what_a_write_told_of_and_is_gone_when_the_watch_is_back_was_deleted(served: Served) -> None:
    with behind(served, Weather("test", {}, {})) as there, Keeper(there.client, there.world.namespace) as keeper:
        there.create("before")
        eventually(lambda: keeper.current("TFJob"), what="the journal follows")
        there.proxy.cut()
        eventually(lambda: keeper.is_away, what="its watches are away")
        keeper.add(there.world.submit("meanwhile"), "TFJob")
        there.world.client.delete(TFJOBS, there.world.namespace, "meanwhile")
        there.proxy.restore()
        eventually(lambda: not keeper.is_away, what="its watches are back")
        told = [(entry.name, entry.what) for entry in keeper.entries()]
        assert told == [("before", "ADDED"), ("meanwhile", "MODIFIED"), ("meanwhile", "DELETED")]


def keeper_is_whole(keeper: Keeper, version: int) -> bool:
    return not any(after < version <= until for after, until in keeper.gaps())
