"""Stacks that the operator takes by a command in a job's pods: bounded, reported, and in nobody's way."""

import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from tests.support.clock import FakeClock
from tests.support.fake_api import api_error
from tests.unit.logs.archive.samples import JOB, pod, running
from tfoperator.api.v1.reasons import JobReason
from tfoperator.kube.http.sending.exec import Executed
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.operator.witnesses.stall_stacks import COMMAND_SECONDS, MAX_BYTES, MAX_PODS, TAKE_SECONDS, StackTaker

TEXT = "Process 7:\n  File train.py\n"
NO_LIBRARY = Executed("", "/usr/bin/python3: No module named tfoperator", 1)
NOBODY = Executed("", "no process here can print its stacks: call register()\n", 1)


def up(index: int) -> Pod:
    running_pod = pod(index, running())
    return msgspec.structs.replace(running_pod, status=msgspec.structs.replace(running_pod.status, phase="Running"))


class Cluster:
    """Pods that answer the command, an archive, and the receiver of events."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {name.replace("_", "-"): answer for name, answer in answers.items()}
        self.asked: list[str] = []
        self.bounds: set[tuple[float, int]] = set()
        self.kept: dict[str, str] = {}
        self.events: list[tuple[str, str, str]] = []
        self.refusal: OSError | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.done = threading.Event()
        self.clock = FakeClock()
        self.taker = StackTaker(self, self._keep, self._tell, clock=self.clock)

    def pod_exec(
        self, namespace: str, name: str, container: str, command: Sequence[str], *, timeout: float, max_bytes: int
    ) -> Executed:
        assert (namespace, container, command[-1]) == ("vision", "tensorflow", "tfoperator.progress.stacks")
        assert self.gate.wait(60)
        self.asked.append(name)
        self.bounds.add((timeout, max_bytes))
        answer = self.answers.get(name.removeprefix("mnist-"), Executed(TEXT, "", 0))
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Executed)
        return answer

    def _keep(self, job: ObjectMeta, of: Pod, container: str, text: str) -> None:
        assert (job, container) == (JOB, "tensorflow")
        if self.refusal is not None:
            raise self.refusal
        self.kept[of.metadata.name] = text

    def _tell(self, job: ObjectMeta, reason: JobReason, message: str) -> None:
        assert job == JOB
        self.events.append((reason.event_type, reason, message))

    def take(self, *pods: Pod) -> None:
        self.taker.take(JOB, pods, self.done.set)
        assert self.done.wait(60)
        self.taker.close()


def test_they_are_kept_and_told_of_once() -> None:
    cluster = Cluster()
    cluster.take(up(0), up(1))
    assert cluster.kept == {"mnist-worker-0": TEXT, "mnist-worker-1": TEXT}
    assert cluster.events == [("Normal", "StacksTaken", "Stacks of worker-0, worker-1 are in the log archive.")]
    assert cluster.taker.taken(JOB.uid) == cluster.clock.now()
    assert cluster.bounds == {(COMMAND_SECONDS, MAX_BYTES)}


def test_what_a_pod_can_not_tell_and_the_archive_refuses_is_said() -> None:
    cluster = Cluster(worker_1=NO_LIBRARY, worker_2=NOBODY, worker_3=TransportError("the node is gone"))
    cluster.take(*map(up, range(4)))
    [(kind, reason, message)] = cluster.events
    assert (kind, reason) == ("Normal", "StacksTaken")
    text = "Stacks of worker-0 are in the log archive. Replicas without stacks: worker-1: its image has no tfoperator"
    assert message.startswith(text)
    assert "worker-2: no process here can print its stacks" in message
    assert "worker-3: a command can't be run in its container: the node is gone" in message
    full = Cluster()
    full.refusal = OSError("the archive is full")
    full.take(up(0))
    [(kind, reason, message)] = full.events
    assert (kind, reason) == ("Warning", "StacksNotTaken")
    assert "worker-0: the log archive can't keep the stacks: the archive is full" in message


def test_without_the_right_one_event_says_what_to_grant() -> None:
    cluster = Cluster(**{f"worker_{i}": api_error(403) for i in range(16)})
    cluster.take(*map(up, range(16)))
    [(kind, reason, message)] = cluster.events
    assert (kind, reason) == ("Warning", "StacksNotTaken")
    for words in ("get and create of pods/exec", "component stall-stacks", "stallStacks.enabled", "docs/hangs.md"):
        assert words in message
    assert cluster.kept == {}
    assert cluster.taker.taken(JOB.uid) == cluster.clock.now(), "so that the end of the stall waits no longer"


def test_of_many_replicas_some_are_asked() -> None:
    cluster = Cluster()
    cluster.take(*map(up, range(MAX_PODS + 5)))
    assert len(cluster.kept) == MAX_PODS
    [(_, _, message)] = cluster.events
    assert "and 8 more are in the log archive. The operator did not request the stacks of 5 more replicas." in message
    assert len(message) < 400


def test_only_pods_that_run_are_asked() -> None:
    leaving = up(2)
    meta = msgspec.structs.replace(leaving.metadata, deletion_timestamp=FakeClock().now())
    cluster = Cluster()
    cluster.take(up(0), pod(1), msgspec.structs.replace(leaving, metadata=meta))
    assert cluster.asked == ["mnist-worker-0"]
    none = Cluster()
    none.take(pod(0))
    assert (none.asked, none.events) == ([], [])
    assert none.taker.taken(JOB.uid) == none.clock.now()


def test_what_has_not_begun_in_time_is_left_out() -> None:
    cluster = Cluster()
    cluster.gate.clear()
    cluster.taker.take(JOB, [up(i) for i in range(MAX_PODS)], cluster.done.set)
    cluster.clock.advance(TAKE_SECONDS)
    cluster.gate.set()
    assert cluster.done.wait(60)
    cluster.taker.close()
    assert len(cluster.asked) < MAX_PODS
    assert "the time limit was reached before the operator read the stacks" in cluster.events[0][2]


def test_it_is_not_begun_twice_and_a_bug_ends_nothing() -> None:
    cluster = Cluster(worker_1="no answer at all")
    cluster.gate.clear()
    for _ in range(3):
        cluster.taker.take(JOB, [up(0), up(1)], cluster.done.set)
    cluster.gate.set()
    assert cluster.done.wait(60)
    cluster.taker.close()
    assert sorted(cluster.asked) == ["mnist-worker-0", "mnist-worker-1"]
    assert "worker-1: an unexpected error happened" in cluster.events[0][2]


def test_a_job_that_is_gone_is_forgotten_and_a_closed_taker_takes_no_more() -> None:
    cluster = Cluster()
    cluster.gate.clear()
    cluster.taker.take(JOB, [up(0)], cluster.done.set)
    cluster.taker.forget(JOB.uid)
    cluster.gate.set()
    cluster.taker.close()
    assert cluster.taker.taken(JOB.uid).year == 1970
    before = list(cluster.asked)
    cluster.taker.take(JOB, [up(0)], cluster.done.set)
    assert (cluster.asked, cluster.events, cluster.done.is_set()) == (before, [], False)
