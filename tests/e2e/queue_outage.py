"""How late ends, restarts and deadlines of running jobs are while a real Kueue is away, beside jobs without a queue.

    python -m tests.e2e.queue_outage --away 60 --jobs 20 --waiting 150    # prints figures

Jobs of both kinds run at the same time, on the same API server and under the same operator; others wait for quota.
Kueue's process is killed. While it is away, pods of both kinds end and fail in turn, and deadlines pass. Each figure is
the time from the change of the pod to its effect on the job, or from the deadline to the end of the job.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tests.e2e.queues import Queues, queues_of
from tests.support.eventually import eventually
from tests.support.operated import JobOnCluster

_DEADLINE = 30
"""Seconds from the start of a job to its deadline, within the time for which Kueue is away."""

_EVERY = 0.02


class Outage:
    """Jobs in a queue and jobs without a queue, and how late each of their changes was, in seconds."""

    def __init__(self, queues: Queues, jobs: int, waiting: int) -> None:
        self._queues = queues
        self._queue = queues.queue(3 * jobs)
        self.late: dict[tuple[str, str], list[float]] = defaultdict(list)
        """By what happens and where: `("end", "queue")`."""
        self._jobs = {
            (what, where): [self._submit(f"{what}-{where}-{number}", what, where) for number in range(jobs)]
            for what in ("end", "restart")
            for where in ("queue", "alone")
        }
        for job in (job for group in self._jobs.values() for job in group):
            self._run(job)
        for number in range(waiting):
            queues.submit(f"waits-{number}", self._queue, Worker=jobs + 1)
        self._deadlines = {
            where: [self._submit(f"late-{where}-{number}", "deadline", where) for number in range(jobs)]
            for where in ("queue", "alone")
        }
        for deadline in (job for group in self._deadlines.values() for job in group):
            self._run(deadline)

    def _submit(self, name: str, what: str, where: str) -> JobOnCluster:
        queue = self._queue if where == "queue" else ""
        manifest = self._queues.manifest(name, queue, restart_policy="ExitCode", Worker=1)
        if what == "deadline":
            manifest["spec"]["runPolicy"]["activeDeadlineSeconds"] = _DEADLINE
        return self._queues.submit_manifest(manifest)

    def _run(self, job: JobOnCluster) -> None:
        job.wait_pods("worker-0", within=150)
        job.play("Running", "worker-0")

    def play(self, seconds: float) -> None:
        """Let pods of both kinds end and fail in turn for so long, one after the other, and wait for all deadlines."""
        steps = [
            step for group in zip(*self._jobs.values(), strict=True) for step in zip(self._jobs, group, strict=True)
        ]
        began = time.monotonic()
        for number, ((what, where), job) in enumerate(steps):
            time.sleep(max(began + number * seconds / len(steps) - time.monotonic(), 0))
            self._measure(what, where, job)
        for where, jobs in self._deadlines.items():
            for job in jobs:
                job.wait("Failed", within=60)
                self.late["deadline", where].append(_seconds_late(job))

    def _measure(self, what: str, where: str, job: JobOnCluster) -> None:
        uid = job.pods()["worker-0"]["metadata"]["uid"]
        phase, report = ("Succeeded", {}) if what == "end" else ("Failed", {"exit_code": 137})
        job.play(phase, "worker-0", **report)
        changed = time.monotonic()
        is_over: Callable[[], bool]
        if what == "end":
            is_over = lambda: job.conditions().get("Succeeded", {}).get("status") == "True"  # noqa: E731
        else:
            is_over = lambda: job.pods().get("worker-0", {"metadata": {"uid": uid}})["metadata"]["uid"] != uid  # noqa: E731
        eventually(is_over, within=120, every=_EVERY, what=f"{what} of {job.name}")
        self.late[what, where].append(time.monotonic() - changed)


def _seconds_late(job: JobOnCluster) -> float:
    """Return the seconds from a job's deadline to its end, of times in whole seconds."""
    status = job.status()
    start, end = (datetime.fromisoformat(status[name]) for name in ("startTime", "completionTime"))
    return (end - start).total_seconds() - _DEADLINE


def main() -> int:
    """Play one outage in one cluster, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20, help="of each kind, with and without a queue")
    parser.add_argument("--waiting", type=int, default=150, help="jobs that wait for quota")
    parser.add_argument("--away", type=float, default=60, help="seconds without Kueue")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, queues_of(Path(folder), "ours", waitForPodsReady=None) as queues:
        outage = Outage(queues, options.jobs, options.waiting)
        queues.kueue.kill()
        try:
            outage.play(options.away)
        finally:
            queues.kueue.start()
    print(f"Kueue was away for {options.away:.0f} s, {options.jobs} jobs of each kind, {options.waiting} waited")
    for (what, where), seconds in sorted(outage.late.items()):
        print(f"{what:9} {where:6} median {statistics.median(seconds):5.2f} s, longest {max(seconds):5.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
