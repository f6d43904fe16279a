"""The same changes on a real API server, and on the Go operator, for the contrast.

All jobs of one state of life live side by side: for each change the job that is changed and a job that is created with
the new spec, and some that are never changed. Only fields that the Go operator's CRD describes, too, are changed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from hack.enumeration.fields.changes import NAME, Edit, Json, changes, merge_patch
from hack.enumeration.fields.lives import GANG, SHAPE, Changed, Life, Outcome, differences, outcome_of, refusal
from hack.enumeration.fields.peer import common_subject
from hack.enumeration.fields.table import Tried, table
from hack.enumeration.real.jobs import Job, ManyJobs
from hack.enumeration.real.plane import OPERATORS, jobs_beside
from hack.faults.plan.attachments import Attachments
from hack.faults.plan.steps import Act, Step
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.views.objects import decode_nothing

_TWINS = 6
"""The number of jobs that are never changed. A difference between them shows which differences mean nothing."""

Seen = dict[str, dict[str, Json]]
"""The objects of jobs, by namespace."""


class Contrast:
    """Changes jobs beside one operator. For one thread."""

    def __init__(self, jobs: ManyJobs, say: Callable[[str], None]) -> None:
        self._jobs = jobs
        self._subject = common_subject()
        self._say = say

    def live(self, life: Life, chosen: Sequence[tuple[str, Edit, Json]]) -> list[Tried]:
        """Make these changes in one state of life, all at once. Raises KubeError, TimeoutError."""
        jobs, whole, specs = self._jobs, self._subject.spec, [spec for _, _, spec in chosen]
        unchanged, changed, created = (self._places(count) for count in (_TWINS, len(chosen), len(chosen)))
        every = [*unchanged, *changed, *created]
        wanted = [*[whole] * (_TWINS + len(chosen)), *specs]
        uncreated = jobs.each(self._create, zip(every, wanted, strict=True))[-len(chosen) :]
        self._lead(every, life)
        earlier_events = jobs.events()
        patches = [merge_patch(whole, spec) for spec in specs]
        refused = jobs.each(self._change, zip(changed, patches, strict=True))
        jobs.rest(every)
        seen, later_events = self._seen(every), jobs.events()
        back = [merge_patch(spec, whole) for spec in specs]
        unhealed = jobs.each(self._change, zip(changed, back, strict=True))
        jobs.rest(every)
        healed = self._seen(every)
        chance = {path for of in (seen, healed) for job in unchanged for path in _differ(of, unchanged[0], job)}
        self._say(f"{life}: {len(every)} jobs; by chance they differ at {sorted(chance)}")
        tried = []
        for at, (name, how, _) in enumerate(chosen):
            if refused[at]:
                tried.append(Tried(name, how, life, refusal(name, refused[at])))
                continue
            job = changed[at]
            messages = tuple(
                text for key, text in later_events[job.namespace].items() if key not in earlier_events[job.namespace]
            )
            differs = tuple(path for path in _differ(seen, job, created[at]) if path not in chance)
            others = tuple(path for path in _differ(healed, job, unchanged[0]) if path not in chance)
            left = (unhealed[at],) if unhealed[at] else others
            outcome = Outcome.IMPOSSIBLE if uncreated[at] else outcome_of(name, life, messages, differs)
            tried.append(Tried(name, how, life, Changed(outcome, messages, differs, left)))
        jobs.remove(every)
        return tried

    def _places(self, count: int) -> list[Job]:
        return [self._jobs.job(SHAPE, Attachments(gang=GANG)) for _ in range(count)]

    def _create(self, job_and_spec: tuple[Job, Json]) -> None:
        self._jobs.create(job_and_spec[0], self._subject.job(job_and_spec[1]))

    def _change(self, job_and_patch: tuple[Job, Json]) -> None:
        self._jobs.client.patch(TFJOBS, job_and_patch[0].namespace, NAME, {"spec": job_and_patch[1]}, decode_nothing)

    def _seen(self, every: Sequence[Job]) -> Seen:
        return {job.namespace: self._jobs.objects.plain(job.namespace) for job in every}

    def _lead(self, every: Sequence[Job], life: Life) -> None:
        self._jobs.rest(every, progress=life is not Life.CREATED)
        match life:
            case Life.RESTARTING:
                self._fail(every, 137)
            case Life.FAILED:
                for _ in range(2):
                    self._fail(every, 1)
            case Life.SUSPENDED:
                suspend: Json = {"runPolicy": {"suspend": True}}
                self._jobs.each(self._change, [(job, suspend) for job in every])
                self._jobs.rest(every)
            case Life.SUCCEEDED:
                self._jobs.rest(every, succeed=True)

    def _fail(self, every: Sequence[Job], code: int) -> None:
        self._jobs.each(lambda job: job.simulator.act(Step(0.0, Act.FAIL, 0, 0.99, code)), every)
        self._jobs.rest(every, progress=False)


def _differ(seen: Seen, job: Job, other: Job) -> list[str]:
    return differences(seen[job.namespace], seen[other.namespace])


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of one operator, and what came of each change."""
    parser = argparse.ArgumentParser(prog="python -m hack.enumeration.fields.contrast", description=__doc__)
    parser.add_argument("operator", choices=OPERATORS)
    parser.add_argument("--share", type=int, default=1, help="make one of this many changes")
    parser.add_argument("--life", type=Life, nargs="*", default=list(Life), help="these states only")
    arguments = parser.parse_args(argv)
    every = list(changes(common_subject()))
    done: list[Tried] = []
    with jobs_beside(arguments.operator, GANG) as jobs:
        contrast = Contrast(jobs, lambda text: print(text, file=sys.stderr, flush=True))
        for life in arguments.life:
            done += contrast.live(life, every[:: arguments.share])
    print(*done, table(done), sep="\n")
    print(f"{len(done)} of {len(every) * len(Life)} changes were tried")
    return 0


if __name__ == "__main__":
    sys.exit(main())
