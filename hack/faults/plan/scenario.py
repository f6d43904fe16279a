"""The scenario of a seed: jobs, what happens to them and around them, and the faults meanwhile. Pure.

A scenario names replicas by a number between 0 and 1 (`pick`), because which pods there are when a step comes depends
on the operator. The same seed always gives the same scenario.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hack.faults.injection.injector import EVENT_FAULTS, REQUEST_FAULTS, EventFault, RequestFault
from hack.faults.plan.attachments import JOB_SERVICE, Attachments, with_attachments
from hack.faults.plan.stalls import with_stalls
from hack.faults.plan.steps import Act, JobShape, Profile, Step

Json = dict[str, Any]

RETRYABLE_CODES = (130, 137, 143, 255)
_PERMANENT_CODES = (1, 2, 127)


@dataclass(frozen=True)
class Scenario:
    """Everything that a seed decides."""

    seed: int
    jobs: tuple[JobShape, ...]
    steps: tuple[Step, ...]
    operators: int
    request_faults: dict[RequestFault, float]
    event_faults: dict[EventFault, float]
    no_watch_list: bool
    unique_names: bool
    attachments: Attachments
    default_networks: tuple[str, ...]
    """The operator's `--default-network` at its first start, at its second, and so on, over and over."""

    def describe(self) -> list[str]:
        """Lines for people."""
        faults: dict[str, float] = {str(kind): chance for kind, chance in self.request_faults.items()}
        faults |= {f"event {kind}": chance for kind, chance in self.event_faults.items()}
        return [
            f"seed {self.seed}: {self.operators} operator(s)"
            + (", unique names" if self.unique_names else "")
            + f", by default {' then '.join(self.default_networks)}"
            + (", no WatchList" if self.no_watch_list else "")
            + (f", gangs for {self.attachments.gang}" if self.attachments.gang else ""),
            "faults: " + (", ".join(f"{kind} {chance:.0%}" for kind, chance in faults.items()) or "none"),
            *(f"job {number}: {shape}" for number, shape in enumerate(self.jobs)),
        ]


def make_scenario(seed: int, profile: Profile, *, plain: bool = False) -> Scenario:
    """Return a seed's scenario; if `plain`, without attachments, sidecars, stalls, and replicas restart one by one."""
    rng = random.Random(f"scenario {seed}")
    jobs = tuple(_shape(rng, number, profile) for number in range(rng.choice((1, 2, 2, 3, 4))))
    # Parts that were added later have a generator of their own, so that older seeds keep their steps.
    later = random.Random(f"later {seed}")
    jobs = tuple(_with_thresholds(later, shape) for shape in jobs)
    unset = random.Random(f"unset {seed}")
    jobs = tuple(_without_clean_up(shape) if unset.random() < 0.4 else shape for shape in jobs)
    operators = rng.choice((1, 1, 2))
    requests: dict[RequestFault, float] = {}
    events: dict[EventFault, float] = {}
    if rng.random() < 0.9:
        requests = {kind: rng.choice((0.02, 0.05, 0.1)) for kind in rng.sample(REQUEST_FAULTS, rng.randint(0, 5))}
        events = {kind: rng.choice((0.01, 0.03, 0.08)) for kind in rng.sample(EVENT_FAULTS, rng.randint(0, 3))}
    if profile.wall_speed == 1:
        # The double check, which alone finds what was lost, goes by wall clocks: five minutes, longer than a plan.
        events.pop(EventFault.LOSE, None)
    steps = _with_more(later, jobs, _steps(rng, jobs, operators, profile))
    attachments = Attachments()
    if not plain:
        jobs, steps, attachments = with_attachments(seed, profile, jobs, steps)
        scopes = random.Random(f"scopes {seed}")
        jobs = tuple(_with_scope(scopes, shape) for shape in jobs)
    networks = random.Random(f"networks {seed}")
    if not plain:
        jobs = tuple(_with_network(networks, shape) for shape in jobs)
        steps = _with_taken_names(networks, jobs, steps)
        jobs, steps = with_stalls(seed, profile, jobs, steps)
        sidecars = random.Random(f"sidecars {seed}")
        jobs = tuple(replace(shape, sidecar=sidecars.random() < 0.3) for shape in jobs)
    return Scenario(
        seed=seed,
        jobs=jobs,
        steps=tuple(steps),
        operators=operators,
        request_faults=requests,
        event_faults=events,
        no_watch_list=rng.random() < 0.25,
        unique_names=rng.random() < 0.15,
        attachments=attachments,
        default_networks=("PerReplica",) if plain else _default_networks(networks),
    )


def _shape(rng: random.Random, number: int, profile: Profile) -> JobShape:
    replicas: dict[str, int] = {}
    led = rng.random() < 0.4
    if led:
        replicas[rng.choice(("Chief", "Chief", "Master"))] = 1
    if not led or rng.random() < 0.8:
        replicas["Worker"] = rng.choice((1, 2, 2, 3, 5))
    if rng.random() < 0.4:
        replicas["PS"] = rng.choice((1, 2))
    if rng.random() < 0.15:
        replicas["Evaluator"] = 1
    policy: Json = {"cleanPodPolicy": rng.choice(("None", "Running", "All"))}
    if rng.random() < 0.2:
        policy["backoffLimit"] = rng.choice((1, 2, 4))
    if rng.random() < 0.15:
        policy["ttlSecondsAfterFinished"] = rng.choice((0, 1, 10) if profile.wall_speed > 1 else (0, 1))
    if rng.random() < 0.1:
        policy["activeDeadlineSeconds"] = rng.choice((20, 3600) if profile.wall_speed > 1 else (4, 3600))
    return JobShape(
        name=f"job-{number}",
        replicas=replicas,
        restart_policy=rng.choice(("OnFailure", "Always", "ExitCode", "ExitCode", "Never")),
        success_policy="AllWorkers" if "Worker" in replicas and rng.random() < 0.25 else "",
        dynamic="Worker" in replicas and rng.random() < 0.15,
        suspended=rng.random() < 0.1,
        managed_by="kueue.x-k8s.io/multikueue" if rng.random() < 0.04 else "",
        run_policy=policy,
    )


def _without_clean_up(shape: JobShape) -> JobShape:
    policy = {name: value for name, value in shape.run_policy.items() if name != "cleanPodPolicy"}
    return replace(shape, run_policy=policy)


def _with_thresholds(rng: random.Random, shape: JobShape) -> JobShape:
    if "Worker" not in shape.replicas or rng.random() >= 0.25:
        return shape
    fewest = rng.choice((None, None, 1, 2, "50%", "100%"))
    return replace(
        shape,
        replicas={**shape.replicas, "Worker": rng.randint(3, 6)},
        # Under the others no worker fails for good.
        restart_policy=rng.choice((shape.restart_policy, "Never", "ExitCode", "ExitCode")),
        min_succeeded=None if shape.success_policy else fewest,  # the two contradict each other
        max_failed=rng.choice((None, 0, 1, 2, "50%")),
    )


def _with_network(rng: random.Random, shape: JobShape) -> JobShape:
    return replace(shape, network=rng.choice(("", "", "", "", "PerJob", "PerJob", "PerReplica")))


def _with_taken_names(rng: random.Random, jobs: Sequence[JobShape], steps: Sequence[Step]) -> list[Step]:
    """A service of a job's name is there before the job, or comes between jobs."""
    steps = list(steps)
    for number, shape in enumerate(jobs):
        if shape.network == "PerJob" and rng.random() < 0.1:
            steps.insert(rng.randint(0, len(jobs)), Step(0.0, Act.CREATE_FOREIGN, number, rng.random(), JOB_SERVICE))
    return steps


def _default_networks(rng: random.Random) -> tuple[str, ...]:
    return rng.choice(
        (("PerReplica",), ("PerReplica",), ("PerJob",), ("PerReplica", "PerJob"), ("PerJob", "PerReplica"))
    )


def _with_scope(rng: random.Random, shape: JobShape) -> JobShape:
    if rng.random() >= 0.3:
        return shape
    return replace(shape, run_policy={**shape.run_policy, "restartScope": "Job"})


def _with_more(rng: random.Random, jobs: Sequence[JobShape], steps: list[Step]) -> list[Step]:
    """Adds evictions by the API, as a drain makes them, and workers that fail for good where there are thresholds."""
    for number, shape in enumerate(jobs):
        if shape.min_succeeded is None and shape.max_failed is None:
            continue
        for _ in range(rng.randint(1, 4)):
            # Workers come last of a job's pods by name; the first steps make the jobs and start them.
            at = rng.randint(min(2 * len(jobs), len(steps)), len(steps))
            fail = Step(rng.uniform(0, 0.1), Act.FAIL, number, rng.uniform(0.5, 1), 1)
            steps[at:at] = [Step(rng.uniform(0.05, 0.2), Act.RUN, number, value="all"), fail]
    return [
        replace(step, value="evict") if step.act is Act.DELETE_BOUND_POD and rng.random() < 0.5 else step
        for step in steps
    ]


_COMMON: tuple[tuple[Act, int], ...] = (
    (Act.RUN, 14),
    (Act.SUCCEED, 3),
    (Act.FAIL, 8),
    (Act.EVICT, 3),
    (Act.RESTART_IN_PLACE, 2),
    (Act.DELETE_POD, 6),
    (Act.DELETE_BOUND_POD, 4),
    (Act.LOSE_NODE, 1),
    (Act.NODE_SILENT, 1),
    (Act.END_TERMINATING, 5),
    (Act.DELETE_SERVICE, 3),
    (Act.SCALE, 7),
    (Act.SUSPEND, 3),
    (Act.RESUME, 4),
    (Act.DELETE_JOB, 2),
    (Act.CREATE, 3),
    (Act.KILL_OPERATOR, 4),
    (Act.PAUSE_OPERATOR, 2),
    (Act.CUT_NETWORK, 2),
    (Act.STEP_CLOCK, 1),
)


def _steps(rng: random.Random, jobs: Sequence[JobShape], operators: int, profile: Profile) -> list[Step]:
    acts = dict(_COMMON)
    if profile.real:
        acts |= {Act.RESTART_API: 1, Act.PAUSE_ETCD: 1}
        # Real API servers stamp real time, in which a node's loss takes half a minute to be believed.
        del acts[Act.LOSE_NODE], acts[Act.NODE_SILENT]
    else:
        acts[Act.COMPACT] = 2
    steps = [Step(rng.uniform(0, 0.05), Act.CREATE, number) for number in range(len(jobs))]
    if rng.random() < 0.8:
        steps += [Step(rng.choice((0.0, 0.1, 0.3)), Act.RUN, number, value="all") for number in range(len(jobs))]
    for _ in range(rng.randint(6, 26)):
        [act] = rng.choices(list(acts), weights=list(acts.values()))
        after = rng.choice((0.0, 0.0, rng.uniform(0, 0.05), rng.uniform(0, 0.25)))
        job = rng.randrange(len(jobs))
        steps.append(Step(after, act, job, rng.random(), _value(rng, act, jobs[job], operators)))
    return steps


def _value(rng: random.Random, act: Act, shape: JobShape, operators: int) -> Any:
    match act:
        case Act.FAIL:
            return rng.choice(RETRYABLE_CODES * 2 + _PERMANENT_CODES)
        case Act.RUN:
            return rng.choice(("all", "one"))
        case Act.SCALE:
            kinds = [kind for kind in shape.replicas if kind in ("Worker", "PS", "Evaluator")]
            if not kinds:
                return None
            kind = rng.choice(kinds)
            led = any(leader in shape.replicas for leader in ("Chief", "Master"))
            fewest = 1 if kind == "Worker" and not led else 0
            return (kind, rng.randint(fewest, 4))
        case Act.DELETE_JOB:
            return rng.choice(("Background", "Background", "Foreground"))
        case Act.KILL_OPERATOR:
            return rng.randrange(operators)
        case Act.PAUSE_OPERATOR:
            # A lease lasts one and a half seconds here: some pauses are longer.
            return (rng.randrange(operators), rng.choice((0.2, 0.8, 2.2)))
        case Act.CUT_NETWORK | Act.PAUSE_ETCD:
            return rng.choice((0.05, 0.3, 0.8))
        case Act.STEP_CLOCK:
            return rng.choice((-7200.0, -30.0, 30.0, 7200.0))
        case _:
            return None
