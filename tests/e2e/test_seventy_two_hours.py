"""Three days of an idle and of a busy operator, on virtual time: its memory and threads must not grow.

The operator is the real one over real HTTP; only its clock is the test's. Watches are ended every few virtual minutes,
as API servers do it, so that connections come and go like in three days.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil
import pytest

from tests.support.clock import FakeClock
from tests.support.cluster import Cluster, decode, find, tfjob
from tests.support.eventually import eventually
from tests.support.served_elsewhere import ServerElsewhere, server_elsewhere
from tests.support.threads import no_threads_left
from tfoperator.api.v1.types import TFJOBS
from tfoperator.events import ObjectReference
from tfoperator.events.correlator import Occurrence
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.protocol.resources import PODS
from tfoperator.operator import Operator, Options

HOURS = 72
WATCH_SECONDS = 450.0  # what API servers choose is 300 to 600
STEP_SECONDS = 45.0


@dataclass
class Size:
    """The size of a process."""

    objects: int
    threads: int
    connections: int
    resident: int

    @classmethod
    def now(cls) -> Size:
        gc.collect()
        process = psutil.Process()
        connections = [
            connection for connection in process.net_connections("tcp") if connection.status == psutil.CONN_ESTABLISHED
        ]
        return cls(len(gc.get_objects()), threading.active_count(), len(connections), process.memory_info().rss)


class Life:
    """An operator whose time the test makes pass."""

    def __init__(self, server: ServerElsewhere, clock: FakeClock, operator: Operator, cluster: Cluster) -> None:
        self._server = server
        self._clock = clock
        self.operator = operator
        self.cluster = cluster
        self._next_close = clock.monotonic() + WATCH_SECONDS
        self._resting = 0

    def come_to_rest(self) -> None:
        """Remember how many threads wait for the clock when there is nothing to do."""
        self.until(lambda: self.operator.is_leader, "the operator works")
        self.pass_by(STEP_SECONDS, settle=False)
        self._resting = eventually(self._stable, what="the operator rests")

    def _stable(self) -> int:
        before = len(self._clock.at_rest())
        threading.Event().wait(0.2)
        return before if before == len(self._clock.at_rest()) else 0

    def pass_by(self, seconds: float, *, settle: bool = True) -> None:
        """Let so many virtual seconds pass, in steps that let everybody do what is due."""
        end = self._clock.monotonic() + seconds
        while (now := self._clock.monotonic()) < end:
            self._clock.advance(min(STEP_SECONDS, end - now))
            if now >= self._next_close:
                self._next_close = now + WATCH_SECONDS
                self._server.close_watches()
            if settle:
                self._clock.wait_for_waiters(self._resting, timed=False, limit=30)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Let time pass, little by little, until something is so."""

        def probe() -> object:
            self._clock.advance(0.1)
            return condition()

        eventually(probe, every=0.002, what=what)

    @property
    def now(self) -> datetime:
        return self._clock.now()


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Log nothing: pytest keeps logs, which would grow."""
    caplog.set_level(logging.CRITICAL, "tfoperator")


@contextmanager
def life() -> Iterator[Life]:

    clock = FakeClock(start=datetime.now(UTC).replace(microsecond=0))
    with no_threads_left(), server_elsewhere() as server, Client(ClusterConfig(server=server.url)) as admin:
        cluster = Cluster(admin, "default")
        with Client(ClusterConfig(server=server.url), clock=clock) as client:
            operator = Operator(client, Options(restart_delay_base=0.1), clock=clock)
            operator.start()
            try:
                simulated = Life(server, clock, operator, cluster)
                simulated.come_to_rest()
                yield simulated
            finally:
                # Threads that wait for the clock on the way out are not kept waiting.
                stopping = threading.Thread(target=operator.stop, args=(10,))
                stopping.start()

                def stopped() -> bool:
                    clock.advance(1)
                    return not stopping.is_alive()

                eventually(stopped, what="the operator stops")


def one_job(life: Life, name: str) -> None:
    """A job's life: its pods run, one fails and comes back, all succeed, and its time to live ends."""
    cluster = life.cluster
    policy = {"ttlSecondsAfterFinished": 1, "cleanPodPolicy": "All"}
    cluster.submit(tfjob(name, restart_policy="ExitCode", run_policy=policy, Worker=2))
    life.until(lambda: len(cluster.pods()) == 2, "the pods")
    for pod in cluster.pods():
        cluster.set_phase(pod, "Running")
    victim = f"{name}-worker-1"
    uid = cluster.pods()[victim]["metadata"]["uid"]
    cluster.set_phase(victim, "Failed", exit_code=137)

    def replaced() -> bool:
        pod = find(cluster.client, PODS, "default", victim)
        return pod is not None and bool(pod["metadata"]["uid"] != uid)

    life.until(replaced, "the pod is replaced")
    cluster.set_phase(f"{name}-worker-0", "Succeeded", exit_code=0)
    life.until(lambda: not cluster.client.list(PODS, "default", decode).items, "the pods are cleaned up")
    life.pass_by(2, settle=False)
    life.until(lambda: not find(cluster.client, TFJOBS, cluster.namespace, name), "the job's time to live ends")


def fill_memory_of_events(life: Life) -> None:
    """The recorder remembers its last 4096 objects with events, as client-go's does: let it be full already."""
    correlator = life.operator._parts.recorder._correlator
    for number in range(4096):
        regarding = ObjectReference("kubeflow.org/v1", "TFJob", "default", f"earlier-{number}", f"uid-{number}")
        correlator.correlate(Occurrence(regarding, "Normal", "SuccessfulCreatePod", "Created pods", life.now, 0.0))


def assert_no_growth(before: Size, after: Size, *, objects: int) -> None:
    print(before, after, sep="\n")
    # How many connections are open at a moment, and the threads that read them, varies a little; what leaks
    # with every job or every hour is seen.
    assert after.threads <= before.threads + 3
    assert after.connections <= before.connections + 3
    assert after.objects - before.objects < objects
    assert after.resident - before.resident < 8 << 20


def test_an_idle_operator_does_not_grow_in_three_days() -> None:
    with life() as simulated:
        simulated.cluster.submit(tfjob("quiet", Worker=2))
        simulated.until(lambda: len(simulated.cluster.pods()) == 2, "the pods")
        for pod in simulated.cluster.pods():
            simulated.cluster.set_phase(pod, "Running")
        simulated.until(lambda: simulated.cluster.has_condition("quiet", "Ready"), "the job runs")
        simulated.pass_by(3600)
        before = Size.now()
        simulated.pass_by((HOURS - 1) * 3600)
        assert_no_growth(before, Size.now(), objects=300)
        assert simulated.cluster.has_condition("quiet", "Ready")


def test_a_busy_operator_does_not_grow_in_three_days() -> None:
    with life() as simulated:
        fill_memory_of_events(simulated)
        began = simulated.now
        for number in range(HOURS * 3):
            if number == HOURS // 2:
                before = Size.now()
            one_job(simulated, f"job-{number}")
            simulated.pass_by(max(0.0, (number + 1) * 1200 - (simulated.now - began).total_seconds()))
        assert (simulated.now - began).total_seconds() >= HOURS * 3600
        assert_no_growth(before, Size.now(), objects=300)
