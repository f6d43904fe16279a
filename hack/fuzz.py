"""Tests the code from an API server's bytes to a plan with random and mutated TFJobs and random pods.

python hack/fuzz.py                          100,000 jobs from a new seed, which it prints
python hack/fuzz.py --seed 7 --count 1000    the same thousand each time
python hack/fuzz.py --seed 7 --first 812 --count 1    one of them again

A cluster can contain jobs that are older than the rules of the CRD. If such a job makes the operator raise an error or
loop, all other jobs suffer, too. So this test checks: `decode_tfjob` raises only its declared error, later functions
raise no error, defaulting is idempotent, and a status is unchanged after encoding and decoding. In a world without
changes, repeated plans end with a plan without actions, at the time that the plan has announced. Each job depends only
on the seed, its number and examples/peer.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack.random_jobs import Case, random_case
from hack.simulated_objects import SimulatedObjects
from hack.simulated_pods import GRACE, terminating
from tfoperator.api import default, errors, validate, validate_manifest
from tfoperator.api.cached_job import decode_job_for_cache, without_templates
from tfoperator.api.v1.types import TFJob, decode_tfjob
from tfoperator.controller.plan.combine import is_last_plan
from tfoperator.controller.plan.decide import plan
from tfoperator.controller.plan.facts.proposal import MAX_REQUEUE
from tfoperator.controller.plan.values.actions import Create, Delete, Patch, Plan
from tfoperator.kube.views.objects import ObjectMeta

Progress = Callable[[int], None]

MAX_ROUNDS = 12
MAX_WAITS = 6


class Finding(Exception):
    """Something that must not be; the message describes it and the case."""


def fuzz(seed: str, numbers: Sequence[int], progress: Progress = lambda _: None) -> int:
    """Check the cases of these numbers; return how many jobs could be decoded. Raises Finding at the first bad case."""
    decoded = 0
    for number in numbers:
        case = random_case(random.Random(f"{seed}:{number}"))
        try:
            decoded += check(case)
        except Exception as error:
            raise Finding(f"seed {seed}, number {number}: {error!r}\njob: {case.data!r}\npods: {case.pods}") from error
        progress(number)
    return decoded


def check(case: Case) -> bool:
    """Take one job all the way; False if its bytes were rightly refused. Raises whatever is wrong."""
    try:
        job = decode_tfjob(case.data)
    except msgspec.DecodeError:
        assert not _has_readable_metadata(case.data), "a job with readable metadata was refused"
        return False
    for problem in validate_manifest(json.loads(case.data)):
        str(problem)
    cached = decode_job_for_cache(case.data).spec
    assert cached in (job.spec, without_templates(job.spec)), "a cache has another job"
    defaulted = default(job)
    assert default(defaulted) == defaulted, "defaulting twice is not defaulting once"
    problems = tuple(str(problem) for problem in errors(validate(defaulted)))
    _World(defaulted, problems if case.problems is None else case.problems, case).come_to_rest()
    return True


def _has_readable_metadata(data: bytes) -> bool:
    try:
        value = msgspec.json.decode(data.decode())
        metadata = value.get("metadata", {}) if isinstance(value, dict) else None
        msgspec.convert(metadata, ObjectMeta)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


class _World(SimulatedObjects):
    """The job and its objects as an API server would keep them; nothing in it moves but by the operator's doing."""

    def __init__(self, job: TFJob, problems: tuple[str, ...], case: Case) -> None:
        super().__init__(job, now=case.now, pods={pod.metadata.name: pod for pod in case.pods})
        self.problems, self.options, self.graceful = problems, case.options, case.graceful

    def come_to_rest(self) -> None:
        """Plan and carry out until there is nothing to do, then let the time pass that the plan asks for, and again."""
        for _ in range(MAX_WAITS):
            wait = self._settle()
            if wait is None:
                return
            assert wait > 0, "requeued at once although nothing changes"
            try:
                self.now += timedelta(seconds=wait) + timedelta(milliseconds=1)
            except OverflowError:
                return

    def _settle(self) -> float | None:
        rests = False
        for _ in range(MAX_ROUNDS):
            observed = self.observed(problems=self.problems, priorities={"x": 1})
            result = plan(observed, self.now, self.options)
            assert result.requeue_after is None or 0 <= result.requeue_after <= MAX_REQUEUE, result.requeue_after
            idle = not (self._changes_objects(result) or result.write_status or result.events)
            assert not rests or (idle and result.requeue_after is None), f"was to rest, and yet: {result}"
            rests = is_last_plan(result, observed)
            if idle:
                return result.requeue_after
            for action in result.actions:
                unchanged = isinstance(action, Patch) and not action.required and action.kind != "pods"
                assert not unchanged, f"nothing has changed, and yet: {action}"
                if isinstance(action, Create | Patch) and action.kind == "podgroups":
                    assert "system-" not in str(action.body), f"a class that nobody has allowed: {action}"
            self.execute(result, self.job)
            if self.job_deleted:
                return None
        raise AssertionError(f"keeps acting on a world that stands still: {result}")

    def _changes_objects(self, result: Plan) -> bool:
        """Whether the plan deletes the job or has an action that an API server would carry out."""
        if not result.changes_objects:
            return False
        actions = list(result.actions)
        return not actions or not all(isinstance(action, Create) and self._is_taken(action) for action in actions)

    def _is_taken(self, creation: Create) -> bool:
        return creation.kind == "pods" and creation.name in self.pods

    def refuses(self, creation: Create) -> bool:
        """A foreign pod may have the name: the API server refuses, and the operator waits until the pod is gone."""
        return self._is_taken(creation) or super().refuses(creation)

    def take_away(self, kind: str, name: str, deletion: Delete) -> None:
        """Pods may stay, terminating, for as long as anybody looks."""
        if kind == "pods" and self.graceful and deletion.grace_period_seconds != 0:
            grace = self.pods[name].metadata.deletion_grace_period_seconds or GRACE
            self.put(terminating(self.pods[name], self.now, grace))
        else:
            super().take_away(kind, name, deletion)


def parser(description: str | None, what: str) -> argparse.ArgumentParser:
    """Return the parser of every fuzzer's arguments: the seed, and the numbers of its cases."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)), help="a new one if not given")
    made.add_argument("--first", type=int, default=0, help=f"the number of the first {what}")
    made.add_argument("--count", type=int, default=100_000, help=f"how many {what}s")
    return made


def run(arguments: argparse.Namespace, check_numbers: Callable[[Sequence[int], Progress], str]) -> int:
    """Check the chosen cases, print the progress and the result of `check_numbers`; return the exit code."""
    began = time.monotonic()

    def progress(number: int) -> None:
        done = number - arguments.first + 1
        if done % 5000 == 0:
            print(f"{done} of {arguments.count} after {time.monotonic() - began:.0f} s", flush=True)

    print(f"seed {arguments.seed}", flush=True)
    try:
        checked = check_numbers(range(arguments.first, arguments.first + arguments.count), progress)
    except Finding as finding:
        if finding.__cause__ is not None:
            traceback.print_exception(finding.__cause__)
        print(finding, file=sys.stderr)
        return 1
    print(f"{arguments.count} {checked}, no finding, {time.monotonic() - began:.0f} s")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases and say how it went; returns the exit code."""
    arguments = parser(__doc__, "job").parse_args(argv)
    return run(arguments, lambda *how: f"jobs ({fuzz(arguments.seed, *how)} could be decoded)")


if __name__ == "__main__":
    sys.exit(main())
