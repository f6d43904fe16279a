"""Plays random lives of jobs in virtual time, and compares the operator's `status.usage` with an oracle.

    python -m hack.usage_plans --count 1000

Pods wait for nodes, pull images, fail, are evicted, deleted, and restarted in place. Users suspend, resume and scale.
The operator is killed (and loses its memory), sees changes late, and loses its writes. Programs that report their
progress train synchronously, save checkpoints, and begin again at the last checkpoint. The oracle records the real
phase of each second. It follows docs/usage.md, and shares no code with the operator. Each phase may differ by 2 % of
the job's time, or by 2 s. The same holds for the seconds of reserved and of training CPUs.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from hack.simulated_objects import NOW, TEMPLATE, SimulatedObjects, simulated_job
from hack.simulated_pods import GRACE, bound, end_state, ended, restarted, started, terminating, with_status
from tfoperator.api.v1.parts.progress import TrainingProgress
from tfoperator.api.v1.status import JobUsage
from tfoperator.api.v1.types import TFJob
from tfoperator.controller.plan.decide import plan
from tfoperator.controller.plan.values.actions import Delete, Plan
from tfoperator.kube.views.objects import Pod
from tfoperator.operator import Options
from tfoperator.operator.options.planning import plan_options

_REQUESTS = '{"containers":[{"resources":{"requests":{"cpu":2}}}]}'
_CPUS = 2
_REPORT_PERIOD = 5
_CHECKPOINT_STEPS = 60
_OPTIONS = plan_options(Options(), restart_delay_base=1.0, restart_delay_cap=60.0)


@dataclass
class Second:
    """The facts of one second. `losses` counts programs lost so far; `report` is a step, if a program reported it."""

    seen: bool
    suspended: bool
    bound: bool
    running: bool
    cpus: int
    losses: int
    report: int | None


@dataclass
class Shape:
    """The part of a job that a seed decides."""

    workers: int
    servers: int
    reports: bool
    together: bool
    policy: str
    schedule: int
    start: int
    warm_up: int
    length: int

    @classmethod
    def of(cls, dice: random.Random) -> Shape:
        """Return a random shape."""
        return cls(
            workers=dice.randint(1, 4),
            servers=dice.choice((0, 0, 1, 2)),
            reports=dice.random() < 0.6,
            together=dice.random() < 0.3,
            policy=dice.choice(("OnFailure", "ExitCode", "Always")),
            schedule=dice.choice((1, 5, 60)),
            start=dice.choice((1, 10, 60)),
            warm_up=dice.choice((1, 5, 20)),
            length=dice.randint(300, 3600),
        )

    def job(self) -> TFJob:
        """Return the job, as it was created."""
        kinds = {"Worker": self.workers, "PS": self.servers}
        specs = {
            kind: {"replicas": number, "restartPolicy": self.policy, "template": TEMPLATE}
            for kind, number in kinds.items()
            if number
        }
        policy = {"restartScope": "Job"} if self.together else {}
        return simulated_job("job", {"tfReplicaSpecs": specs, "runPolicy": policy})


@dataclass
class World(SimulatedObjects):
    """The cluster, the programs and the operator of one job; a `step` of training takes a second."""

    dice: random.Random = field(default_factory=random.Random)
    shape: Shape = field(default_factory=lambda: Shape.of(random.Random()))
    seconds: list[Second] = field(default_factory=list)
    down_until: int = -1
    _memory: JobUsage | None = None
    _progress: TrainingProgress | None = None
    _due: float = 0.0
    _dirty: bool = True
    _at: int = 0
    _step: int = 0
    _warm_since: int | None = None
    _losses: int = 0
    _seen: bool = False
    _ends: dict[str, int] = field(default_factory=dict)  # when terminating pods are gone, by name
    _delays: dict[str, tuple[int, int]] = field(default_factory=dict)  # to a node and to the program, by UID

    def changed(self) -> None:
        """The operator is to look."""
        self._dirty = True

    def take_away(self, kind: str, name: str, deletion: Delete) -> None:
        """A program that runs gets its time to end."""
        if kind == "pods" and self.pods[name].status.phase == "Running" and deletion.grace_period_seconds != 0:
            self._terminate(name)
        else:
            super().take_away(kind, name, deletion)

    def second(self) -> None:
        """One second passes."""
        self._nodes()
        report = self._train()
        self.seconds.append(self._truth(report))
        self._at += 1
        self.now = NOW + timedelta(seconds=self._at)
        if self._at >= self.down_until and (self._dirty or self._due <= self._at) and self.dice.random() < 0.8:
            self._sync()

    # The operator.

    def _sync(self) -> None:
        self._seen, self._dirty = True, False
        observed = self.observed(usage=self._memory, progress=self._progress)
        planned = plan(observed, self.now, _OPTIONS)
        self._memory = planned.status.usage
        self._due = self._at + (planned.requeue_after if planned.requeue_after is not None else 1e9)
        writes = planned.write_status_first or planned.write_status
        if writes and self.dice.random() < 0.1:
            self._dirty = True  # the write is lost; the next sync repeats it
            return
        if writes:
            self._write(planned)
        for action in planned.actions:
            self.carry_out(action)
        for name, pod in self.pods.items():
            if not pod.spec.requests:
                self.pods[name] = bound(pod, pod.spec.node_name, requests=_REQUESTS)

    def _write(self, planned: Plan) -> None:
        self.job = msgspec.structs.replace(self.job, status=planned.status)
        self._dirty = True

    def kill_operator(self, seconds: int) -> None:
        """Stop the operator for so long; afterwards it knows only what is written."""
        self._memory = self._progress = None
        self.down_until, self._dirty = self._at + seconds, True

    # Nodes.

    def _nodes(self) -> None:
        for name, ends in list(self._ends.items()):
            if ends <= self._at:
                del self._ends[name]
                self.pods.pop(name, None)
                self.changed()
        for pod in list(self.pods.values()):
            uid = pod.metadata.uid
            if uid not in self._delays:
                shape = self.shape
                self._delays[uid] = (self.dice.randint(1, shape.schedule), self.dice.randint(1, shape.start))
            age = self._at - int((pod.metadata.creation_timestamp or NOW).timestamp() - NOW.timestamp())
            to_node, to_start = self._delays[uid]
            if pod.metadata.deletion_timestamp is not None or pod.status.phase != "Pending":
                continue
            if not pod.spec.node_name and age >= to_node:
                self.put(with_status(bound(pod, requests=_REQUESTS), start_time=self.now))
            elif pod.spec.node_name and age >= to_node + to_start:
                self.put(started(pod, self.now))

    def _terminate(self, name: str) -> None:
        pod = self.pods[name]
        if pod.metadata.deletion_timestamp is None:
            self._ends[name] = self._at + self.dice.randint(0, 5)
            self.put(terminating(pod, self.now + timedelta(seconds=GRACE)))

    # What happens.

    def happen(self, what: str) -> None:
        """Something happens to a pod that runs, or to the job."""
        policy = self.job.spec.run_policy
        assert policy is not None
        if what in ("suspend", "resume"):
            meta = msgspec.structs.replace(self.job.metadata, generation=self.job.metadata.generation + 1)
            spec = msgspec.structs.replace(
                self.job.spec, run_policy=msgspec.structs.replace(policy, suspend=what == "suspend")
            )
            self.job = msgspec.structs.replace(self.job, metadata=meta, spec=spec)
            self.changed()
            return
        running = sorted(name for name in self.pods if self._trains(self.pods[name]))
        if what == "kill":
            self.kill_operator(self.dice.choice((1, 3, 8)))
        elif running:
            self._lose(self.pods[self.dice.choice(running)], what)

    def _lose(self, pod: Pod, how: str) -> None:
        self._losses += 1
        if how == "in place" and not self.shape.together and self.shape.policy != "ExitCode":
            self.put(restarted(pod, self.now, end_state(pod, 137, self.now)))
            self._warm_since = None
        elif how == "evict":
            self.put(with_status(pod, phase="Failed", reason="Evicted", container_statuses=()))
        elif how == "delete":
            self._terminate(pod.metadata.name)
        else:
            self.put(ended(pod, 137, self.now))

    def finish(self) -> None:
        """All programs succeed."""
        for pod in list(self.pods.values()):
            if self._trains(pod):
                self.put(ended(pod, 0, self.now))

    # Programs.

    def _trains(self, pod: Pod) -> bool:
        return pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None

    def _train(self) -> int | None:
        """All programs train in step. Returns the step that is reported now, if one is."""
        if not self._all_run():
            self._warm_since = None
            return None
        if self._warm_since is None:
            self._warm_since = self._at + self.shape.warm_up
            self._step -= self._step % _CHECKPOINT_STEPS
        if self._at < self._warm_since:
            return None
        if self._at > self._warm_since:
            self._step += 1
        if not self.shape.reports or (self._at - self._warm_since) % _REPORT_PERIOD or self._ended():
            return None
        if self._at >= self.down_until and self._seen:
            progress = TrainingProgress(step=self._step, last_updated_time=self.now)
            usage = self.job.status.usage if self._memory is None else self._memory
            self._progress = progress
            status = msgspec.structs.replace(self.job.status, progress=progress, usage=usage)
            self.job = msgspec.structs.replace(self.job, status=status)
            self.changed()
        return self._step

    # The truth.

    def _all_run(self) -> bool:
        wanted = sum(spec.desired for spec in self.job.spec.tf_replica_specs.values() if spec is not None)
        return sum(map(self._trains, self.pods.values())) == wanted

    def _ended(self) -> bool:
        return any(condition.type in ("Succeeded", "Failed") for condition in self.job.status.conditions)

    def _truth(self, report: int | None) -> Second:
        wanted = sum(spec.desired for spec in self.job.spec.tf_replica_specs.values() if spec is not None)
        on_nodes = [pod for pod in self.pods.values() if pod.spec.node_name]
        held = [pod for pod in on_nodes if pod.status.phase in ("Pending", "Running")]
        bound = len(held) >= wanted
        cpus = _CPUS * len(held)
        return Second(self._seen, self.job.spec.suspended, bound, self._all_run(), cpus, self._losses, report)


def oracle(seconds: list[Second]) -> tuple[Counter[str], float, float]:
    """Return what docs/usage.md promises for these seconds: seconds of each phase, CPU seconds held and trained."""
    reports = any(second.report is not None for second in seconds)
    phases: Counter[str] = Counter()
    held = trained = 0.0
    before, most, lost_at, losses, ran = "queued", -1, -99, 0, False
    for at, second in enumerate(seconds):
        if not second.seen:
            phase = "queued"
        elif second.suspended:
            phase = "suspended"
        elif before in ("training", "lost"):
            phase = before
            if second.losses > losses:
                phase, lost_at = "lost", at
            if not reports:
                phase = "training" if second.running else phase
            elif second.report is not None:
                words = phase == "lost" and at < lost_at + 10
                if not words:
                    phase = (
                        "training"
                        if second.report > most or (phase == "training" and second.report == most)
                        else "lost"
                    )
                most = max(most, second.report)
        elif reports and second.report is not None:
            phase = "training" if second.report >= most else "lost"
            most = max(most, second.report)
            lost_at = -99
        elif not reports and second.running:
            phase = "training"
        else:
            # Once everything has run without a report, the rest of the time until the first report is the start.
            ran |= second.running
            phase = "starting" if second.bound or (reports and ran and most < 0) else "scheduling"
        losses = second.losses
        phases[phase] += 1
        held += second.cpus
        trained += second.cpus if phase == "training" else 0
        before = phase
    return phases, held, trained


@dataclass
class Outcome:
    """How far a plan's figures are from the truth, in seconds; `text` is for people."""

    seed: int
    length: int
    error: float
    held: float
    trained: float
    text: str

    @property
    def agrees(self) -> bool:
        """Whether all are within 2 % of the time or 2 s (of each CPU)."""
        return max(self.error, self.held, self.trained) <= max(2.0, 0.02 * self.length)


def play(seed: int) -> Outcome:
    """Play the plan of a seed, and compare."""
    dice = random.Random(seed)
    shape = Shape.of(dice)
    world = World(shape.job(), dice=dice, shape=shape)
    happenings = dict(_happenings(dice, shape))
    if dice.random() < 0.2:
        world.down_until = dice.randint(1, 30)
    for at in range(shape.length):
        if happening := happenings.get(at):
            world.happen(happening)
        world.second()
    truth, held, trained = oracle(world.seconds)
    world.down_until = -1
    if dice.random() < 0.5:
        world.finish()
    for _ in range(9):
        world._sync()
    usage = world.job.status.usage if world._ended() else world._memory
    assert usage is not None
    end: datetime = NOW + timedelta(seconds=shape.length)
    phases = usage.until(end)
    cpu = usage.resources_until(end).get("cpu")
    error = max((abs(phases.get(phase, 0) - truth[phase]) for phase in {*phases, *truth}), default=0)
    cpus = _CPUS * (shape.workers + shape.servers)
    off_held = abs((0.0 if cpu is None else cpu.requested_seconds) - held) / cpus
    off_trained = abs((0.0 if cpu is None else cpu.trained_seconds) - trained) / cpus
    details = f"operator {phases}, truth {dict(truth)}; {happenings}; {shape}"
    return Outcome(seed, shape.length, error, off_held, off_trained, details)


def _happenings(dice: random.Random, shape: Shape) -> Iterator[tuple[int, str]]:
    kinds = ("in place", "fail", "fail", "evict", "delete", "kill", "kill")
    at, suspended = 0, False
    while True:
        at += dice.randint(20, 600)
        if at >= shape.length - 60:
            break
        if suspended or dice.random() < 0.1:
            suspended = not suspended
            yield at, "suspend" if suspended else "resume"
        else:
            yield at, dice.choice(kinds)


def main(argv: list[str] | None = None) -> int:
    """Play plans; return 1 if one doesn't agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    arguments = parser.parse_args(argv)
    outcomes = [play(seed) for seed in range(arguments.seed, arguments.seed + arguments.count)]
    wrong = [outcome for outcome in outcomes if not outcome.agrees]
    for outcome in wrong[:10]:
        print(
            f"seed {outcome.seed}: off by {outcome.error:.0f}, {outcome.held:.0f}, {outcome.trained:.0f} s: "
            f"{outcome.text}"
        )
    for name in ("error", "held", "trained"):
        values = sorted(getattr(outcome, name) for outcome in outcomes)
        median, most = values[len(values) // 2], values[len(values) * 99 // 100]
        print(f"{name}: median {median:.1f} s, 99 % {most:.1f} s, most {values[-1]:.1f} s")
    print(f"{len(outcomes) - len(wrong)} of {len(outcomes)} plans agree within 2 % of the time or 2 s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
