from collections.abc import Iterator
from contextlib import contextmanager

from hack.faults.injection.injector import FaultInjector
from hack.faults.journal import JournalRecorder
from tests.hack.faults.test_proxy import Behind, behind
from tests.support.eventually import eventually
from tests.support.served import Served, served
from tfoperator.api.v1.types import TFJOBS

__all__ = ["served"]


@contextmanager
def cut_off(served: Served) -> Iterator[tuple[Behind, JournalRecorder]]:
    """A recorder that has seen the job `before`, and whose watches are away."""
    with (
        behind(served, FaultInjector("test", {}, {})) as there,
        JournalRecorder(there.client, there.world.namespace) as recorder,
    ):
        there.create("before")
        eventually(lambda: recorder.current("TFJob"), what="the job is recorded")
        there.proxy.cut()
        eventually(lambda: recorder.is_away, what="its watches are away")
        yield there, recorder


def test_the_gap_of_a_watch_that_is_away_has_no_end_until_it_is_back(served: Served) -> None:
    with cut_off(served) as (there, recorder):
        written = int(there.world.submit("meanwhile")["metadata"]["resourceVersion"])
        assert not is_whole(recorder, written)
        assert not is_whole(recorder, written + 1000)
        there.proxy.restore()
        eventually(lambda: not recorder.is_away, what="its watches are back")
        assert not is_whole(recorder, written)
        assert is_whole(recorder, written + 1000)
        assert [job["metadata"]["name"] for job in recorder.current("TFJob")] == ["before", "meanwhile"]


def test_what_a_write_told_of_and_is_gone_when_the_watch_is_back_was_deleted(served: Served) -> None:
    with cut_off(served) as (there, recorder):
        recorder.add(there.world.submit("meanwhile"), "TFJob")
        there.world.client.delete(TFJOBS, there.world.namespace, "meanwhile")
        there.proxy.restore()
        eventually(lambda: not recorder.is_away, what="its watches are back")
        told = [(entry.name, entry.what) for entry in recorder.entries()]
        assert told == [("before", "ADDED"), ("meanwhile", "MODIFIED"), ("meanwhile", "DELETED")]


def is_whole(recorder: JournalRecorder, version: int) -> bool:
    return not any(after < version <= until for after, until in recorder.gaps())
