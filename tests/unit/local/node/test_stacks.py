"""Stacks of pods of this node: taken once at a time for each job, kept beside logs, and never in a sync's way."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.support.threads import InThread
from tfoperator.kube.objects import ObjectMeta, Pod
from tfoperator.local.node.stacks import NodeStacks, keep_stacks, kept_stacks, stacks_file

JOB, OTHER = (ObjectMeta(name=name, namespace="ns", uid=f"{name}-uid") for name in ("mnist", "other"))
PODS = [Pod(metadata=ObjectMeta(name=f"mnist-worker-{i}", namespace="ns", uid=f"pod-{i}")) for i in range(3)]


class Taken:
    """Takes stacks when the gate is open, and knows of which pods."""

    def __init__(self) -> None:
        self.pods: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.done = threading.Event()
        self.clock = FakeClock()
        self.failing: tuple[str, ...] = ()
        self.stacks = NodeStacks(self._take, clock=self.clock)

    def _take(self, uid: str) -> None:
        assert self.gate.wait(60)
        self.pods.append(uid)
        if uid in self.failing:
            raise RuntimeError("a bug")

    def take(self) -> None:
        self.stacks.take(JOB, PODS, self.done.set)


@pytest.fixture
def one() -> Iterator[Taken]:
    made = Taken()
    yield made
    made.stacks.close()


def test_those_of_all_pods_are_taken_and_it_is_known_when(one: Taken) -> None:
    assert one.stacks.taken(JOB.uid).year == 1970
    one.take()
    assert one.done.wait(60)
    assert sorted(one.pods) == ["pod-0", "pod-1", "pod-2"]
    assert one.stacks.taken(JOB.uid) == one.clock.now()
    assert one.stacks.taken(OTHER.uid).year == 1970


def test_a_pod_that_can_not_be_looked_into_keeps_no_other_waiting(one: Taken) -> None:
    one.failing = ("pod-0", "pod-2")
    one.take()
    assert one.done.wait(60)
    assert len(one.pods) == 3
    assert one.stacks.taken(JOB.uid) == one.clock.now()


def test_what_is_under_way_is_not_begun_again(one: Taken) -> None:
    one.gate.clear()
    for _ in range(3):
        one.take()
    assert one.stacks.taken(JOB.uid).year == 1970
    one.gate.set()
    assert one.done.wait(60)
    assert len(one.pods) == 3
    one.done.clear()
    one.take()
    assert one.done.wait(60)
    assert len(one.pods) == 6


def test_a_job_that_is_gone_is_forgotten_also_while_its_stacks_are_taken(one: Taken) -> None:
    one.take()
    assert one.done.wait(60)
    one.stacks.forget(JOB.uid)
    assert one.stacks.taken(JOB.uid).year == 1970
    one.gate.clear()
    one.done.clear()
    one.take()
    one.stacks.forget(JOB.uid)
    one.gate.set()
    one.stacks.close()
    assert one.stacks.taken(JOB.uid).year == 1970
    assert not one.done.is_set()


def test_closing_waits_for_what_is_under_way_and_nothing_begins_afterwards(one: Taken) -> None:
    one.take()
    one.stacks.close()
    before = len(one.pods)
    one.take()
    assert len(one.pods) == before


def test_a_stall_that_is_seen_while_it_is_closed_fails_nobody(one: Taken) -> None:
    class ClosedMeanwhile(list[Pod]):
        def __iter__(self) -> Iterator[Pod]:
            closing.append(InThread(one.stacks.close))
            closing[0].join(0.2)  # it may have to wait for us
            return super().__iter__()

    closing: list[InThread] = []
    one.stacks.take(JOB, ClosedMeanwhile(PODS), one.done.set)
    closing[0].result()


def test_without_pods_there_is_nothing_to_do(one: Taken) -> None:
    one.stacks.take(JOB, [], one.done.set)
    one.stacks.close()
    assert not one.done.is_set()


# The file.


def test_stacks_are_added_to_a_file_beside_the_log_that_only_this_user_reads(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    for number, text in enumerate(("first\n", "second\n")):
        keep_stacks(log, f"12:0{number}", text)
    kept = tmp_path / "0.stacks.txt"
    assert stacks_file(log) == kept
    assert kept.read_text() == "Stacks at 12:00\nfirst\n\nStacks at 12:01\nsecond\n\n"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_file_without_stacks_is_a_reason_and_not_a_place(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    assert kept_stacks(log) == ("", "")
    keep_stacks(log, "12:00", "No stacks: install py-spy.\n")
    assert kept_stacks(log) == ("", "install py-spy.")
    keep_stacks(log, "12:01", "Process 7:\nmain\n")
    keep_stacks(log, "12:02", "No stacks: it has ended.\n")
    assert kept_stacks(log) == (str(stacks_file(log)), "")


def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.symlink(victim, tmp_path / "0.stacks.txt")
    keep_stacks(tmp_path / "0.log", "now", "text")
    assert victim.read_text() == "mine"
    assert "can't keep stacks" in caplog.text
