"""A simulated cluster of changing size, in which an operator runs one job: for tests, and for a picture of goodput.

Time is virtual, in seconds. The scheduler, the kubelets and the training program are simulated by a few lines each. The
operator runs the real plan. The operator may die between any two of its writes. Then a new operator continues, and
knows only the objects in the cluster.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from hack.simulated_objects import NOW, TEMPLATE, SimulatedObjects, simulated_job
from hack.simulated_pods import GRACE, bound, started, terminating, unschedulable, with_status
from tfoperator.api.replicas.names import is_probe, replica_of
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.decide import plan
from tfoperator.controller.plan.pod_ends.restart import job_restarts_before
from tfoperator.controller.plan.values.actions import Create, Delete
from tfoperator.controller.plan.values.conditions import is_finished
from tfoperator.controller.plan.values.observed import PlanOptions
from tfoperator.controller.pods.probes import made_for
from tfoperator.kube.views.objects import Pod

START_SECONDS = 20
"""Seconds from the binding of a pod to the first step of its program."""
STOP_SECONDS = 5
"""Seconds from the deletion of a pod to its end."""
CHECKPOINT_SECONDS = 300
"""Seconds of training between two checkpoints."""


def elastic_job(workers: int, policy: dict[str, int] | None) -> TFJob:
    """Return a job with this number of workers and with defaults. Its replicas restart together."""
    spec: dict[str, Any] = {"tfReplicaSpecs": {"Worker": {"replicas": workers, "template": TEMPLATE}}}
    spec["runPolicy"] = {"restartScope": "Job"}
    if policy is not None:
        spec["elasticPolicy"] = policy
    return simulated_job("train", spec)


class Died(Exception):
    """The operator died between two writes."""


@dataclass
class ElasticWorld(SimulatedObjects):
    """The cluster. `capacity` is the number of pods for which it has room.

    `steps` are the steps of one worker, summed up over all workers: the work that the job has done and not lost. With
    `announced` a pod that loses its node is asked to end, and saves; otherwise it is gone at once.
    """

    options: PlanOptions = field(kw_only=True)
    capacity: int = 0
    announced: bool = True
    deaths: random.Random | None = None
    sizes: list[tuple[datetime, int]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    seconds: int = 0
    trained_seconds: int = 0
    steps: float = 0.0
    saved: float = 0.0
    lost_steps: float = 0.0
    is_training: bool = False
    trained_with: int = 0
    _since_save: int = 0
    _bound: dict[str, datetime] = field(default_factory=dict)
    _ends: dict[str, datetime] = field(default_factory=dict)
    _due: datetime = NOW
    _is_changed: bool = True

    # The operator.

    def changed(self) -> None:
        """Wake the operator."""
        self._is_changed = True

    def sync(self) -> None:
        """Plan once, and carry the plan out, unless the operator dies in between."""
        self._is_changed = False
        made = plan(self.observed(), self.now, self.options)
        later = made.requeue_after
        self._due = self.now + timedelta(seconds=later) if later is not None else datetime.max.replace(tzinfo=UTC)
        try:
            self.execute(made, self.job)
            self.events += [f"{event.reason}: {event.message}" for event in made.events]
        except Died:
            self._is_changed = True
        recorded = self.job.status.elastic
        if recorded is not None and recorded.workers and (not self.sizes or self.sizes[-1][1] != recorded.workers):
            self.sizes.append((self.now, recorded.workers))

    def before_request(self, verb: str) -> None:
        """The operator may die."""
        del verb
        if self.deaths is not None and self.deaths.random() < 0.2:
            raise Died

    def refuses(self, creation: Create) -> bool:
        """The name of a pod that terminates is not free yet."""
        return creation.name in self._of(creation.kind)

    def take_away(self, kind: str, name: str, deletion: Delete) -> None:
        """A pod with a node has its grace period; any other object is gone at once."""
        if kind != "pods" or not self.pods[name].spec.node_name:
            super().take_away(kind, name, deletion)
            return
        self._end(name)

    # The cluster.

    def tick(self) -> None:
        """Let one second pass."""
        self.now += timedelta(seconds=1)
        self.seconds += 1
        self._take_nodes()
        self._schedule()
        self._run()
        for _ in range(8):
            if not self._is_changed and self.now < self._due:
                break
            self.sync()
        self._train()

    def resize(self, workers: int) -> None:
        """Scale the job, as a user does."""
        before = self.job.spec.tf_replica_specs
        specs = {kind: None if spec is None else replace(spec, replicas=workers) for kind, spec in before.items()}
        self.job = replace(self.job, spec=replace(self.job.spec, tf_replica_specs=specs))
        self.changed()

    @property
    def at_work(self) -> list[Pod]:
        """The pods whose programs run."""
        return [pod for pod in self.pods.values() if pod.status.phase == "Running"]

    def _end(self, name: str) -> None:
        """Ask the pod's program to end."""
        if name not in self._ends:
            self.put(terminating(self.pods[name], self.now + timedelta(seconds=GRACE)))
            self._ends[name] = self.now + timedelta(seconds=STOP_SECONDS)
            if self.is_training and self.pods[name].status.phase == "Running":
                self.saved = self.steps

    def _take_nodes(self) -> None:
        placed = sorted((pod for pod in self.pods.values() if pod.spec.node_name), key=lambda pod: pod.spec.node_name)
        for pod in placed[max(self.capacity, 0) :]:
            if self.announced and pod.status.phase == "Running":
                self._end(pod.metadata.name)
            elif pod.metadata.deletion_timestamp is None:
                self._remove(pod.metadata.name)
        for name, end in list(self._ends.items()):
            if end <= self.now:
                self._remove(name)

    def _remove(self, name: str) -> None:
        self.pods.pop(name, None)
        self._ends.pop(name, None)
        self._bound.pop(name, None)
        self.changed()

    def _schedule(self) -> None:
        taken = {pod.spec.node_name for pod in self.pods.values() if pod.spec.node_name}
        free = [node for node in (f"node-{number:03}" for number in range(self.capacity)) if node not in taken]
        waiting = [pod for pod in self.pods.values() if not pod.spec.node_name]
        for pod in sorted(waiting, key=lambda pod: (is_probe(pod.metadata.annotations), pod.metadata.name)):
            name = pod.metadata.name
            if free:
                self.put(bound(pod, free.pop(0)))
                self._bound[name] = self.now
            elif not pod.status.conditions:
                self.put(unschedulable(pod, self.capacity))

    def _run(self) -> None:
        for name, since in self._bound.items():
            pod = self.pods[name]
            leaves = pod.metadata.deletion_timestamp is not None
            if is_probe(pod.metadata.annotations) or leaves or pod.status.phase == "Running":
                continue
            if (self.now - since).total_seconds() >= START_SECONDS:
                self.put(started(with_status(pod, start_time=since), self.now))

    # The program: synchronous training, which goes on only with all workers of one cluster.

    def _train(self) -> None:
        workers = [pod for pod in self.at_work if pod.metadata.deletion_timestamp is None]
        numbers = {job_restarts_before(pod) for pod in workers}
        size = made_for(workers[0]) if workers else 0
        if workers and not size:
            size = sum(spec.desired for spec in self.job.spec.tf_replica_specs.values() if spec is not None)
        trains = bool(workers) and len(numbers) == 1 and len(workers) == size
        if trains and not self.is_training:
            self.lost_steps += self.steps - self.saved
            self.steps, self._since_save = self.saved, 0
        self.is_training, self.trained_with = trains, size if trains else 0
        if not trains:
            return
        self.steps += size
        self.trained_seconds += 1
        self._since_save += 1
        if self._since_save >= CHECKPOINT_SECONDS:
            self.saved, self._since_save = self.steps, 0


def random_capacities(seed: int, seconds: int, most: int) -> Callable[[int], int]:
    """Return the capacity by second: it changes at random times, every ten minutes on average."""
    chance = random.Random(seed)
    changes: list[tuple[int, int]] = [(0, chance.randint(0, most))]
    while changes[-1][0] < seconds:
        changes.append((changes[-1][0] + int(chance.expovariate(1 / 600)) + 1, chance.randint(0, most)))

    def at(second: int) -> int:
        return next(capacity for since, capacity in reversed(changes) if since <= second)

    return at


def outages(seed: int, seconds: int, number: int, machines: int) -> Callable[[int], int]:
    """Return the capacity by second of a cluster whose machines fail `number` times, each for some minutes."""
    chance = random.Random(seed)
    times = [(chance.randrange(seconds), chance.randint(300, 1800)) for _ in range(number)]

    def at(second: int) -> int:
        return machines - sum(since <= second < since + lasts for since, lasts in times)

    return at


def is_over(world: ElasticWorld) -> bool:
    """Return whether the job has ended."""
    return is_finished(world.job.status.conditions)


def indexes(pods: Sequence[Pod]) -> Iterator[int]:
    """Yield the indexes of the replicas of these pods."""
    for pod in pods:
        replica = replica_of(pod.metadata.labels)
        if replica is not None:
            yield replica[1]
