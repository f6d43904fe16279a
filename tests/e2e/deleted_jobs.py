"""Jobs in a queue of a real Kueue that are deleted at random moments of their lives: ten seconds later nothing is left.

    python -m tests.e2e.deleted_jobs --jobs 1000 --seed 1         # prints figures; exits with 1 if something is left
    python -m tests.e2e.deleted_jobs --jobs 10 --workloads-first  # each Workload is deleted 0.3 s before its job

Each job has a PodGroup, too. Some 40 jobs live at a time, of one to three pods that begin, run, end and linger; there
is not quota for all. A job is deleted in its first two seconds or in the first six of its pods, by each policy of
propagation, sometimes just after its Workload, its pods or its admission. The API server is looked at some five times a
second: as soon as a job and its pods are gone, its Workload and its PodGroup have ten seconds.
"""

import argparse
import heapq
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.e2e.queue_plans import plans_cluster
from tests.e2e.queues import Queues, with_template
from tests.support.cluster import Json, decode
from tests.support.eventually import eventually, eventually_holds
from tests.support.kueue import CLUSTER_QUEUES
from tfoperator.api.kueue.queues import JOB_UID_LABEL, WORKLOAD_ANNOTATION
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.v1.types import TFJOBS
from tfoperator.controller.pods.gang import COSCHEDULING_POD_GROUPS
from tfoperator.kube.protocol.errors import ConflictError, InvalidError, KubeError, NotFoundError
from tfoperator.kube.protocol.resources import PODS, SERVICES, Resource

WITHIN = 10.0
"""Seconds in which everything of a job is gone when its last pod is: less than the second check takes."""

_AT_ONCE, _CPUS = 40, 48
_TICK = 0.2
_SHARE_OF_YOUNG, _LONGEST_LIFE = 0.3, 6.0
"""This share of jobs is deleted within two seconds, the others within so many seconds of their first pods."""

_ENDED = ("Succeeded", "Failed")
_LINGERS: Json = {"spec": {"terminationGracePeriodSeconds": 600}}
_POLICIES = ("Background",) * 7 + ("Foreground", "Foreground", "Orphan")
_STALLED = 180.0
"""Seconds after which jobs that do not go are given up."""


class DeletedJobs:
    """The lives of jobs in one queue, and what is left of those that were deleted. For one thread."""

    def __init__(self, queues: Queues, seed: int) -> None:
        self._queues = queues
        self._rng = random.Random(seed)
        self._queue = queues.queue(_CPUS, name=f"deleted-{seed}")
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, Callable[[], object]]] = []  # a heap: when, in which order, what
        self._living: dict[str, str] = {}  # names by UID, until nothing of a job is left
        self._deleted: set[str] = set()
        self._orphaning: set[str] = set()
        self._free_since: dict[str, float] = {}  # since when jobs and their pods are gone, by UID
        self._when_it_has_a_pod: dict[str, Callable[[], None]] = {}  # what is planned then for a job, by UID
        self._pods_end = True  # by themselves, with success
        self._planned: set[str] = set()  # UIDs of pods, and of those that terminate with -end
        self.seen = Counter[str]()
        self.late: dict[str, str] = {}
        self.longest = 0.0
        """Seconds between the end of a job's last pod and the end of its Workload and PodGroup, at most."""

    def play(self, count: int) -> list[str]:
        """Let so many jobs live, and delete each; what was left of them, or of their quota, too long."""
        submitted = 0

        def submit_more() -> None:
            nonlocal submitted
            while submitted < count and len(self._living) < _AT_ONCE:
                self._live(f"job-{submitted}")
                submitted += 1

        return self._turn(submit_more)

    def play_workloads_first(self, count: int) -> list[str]:
        """Delete the Workload of each of so many jobs that run, and the job 0.3 s later; what was left too long."""
        uids = [self._submit(f"first-{number}", 2) for number in range(count)]

        def all_run() -> None:
            self._do_due()
            self._look()
            pods = self._queues.client.list(PODS, self._queues.namespace, decode).items
            running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
            assert all(sum(uid in _owners(pod) for pod in running) == 2 for uid in uids), len(running)

        self._pods_end = False
        eventually_holds(all_run, within=_STALLED, every=_TICK, what="all jobs run")
        for uid in uids:
            self._delete_workload(uid)
            self._plan(0.3, lambda uid=uid: self._delete_job(uid, "Background"))  # type: ignore[misc]
        return self._turn(lambda: None)

    def _turn(self, submit_more: Callable[[], None]) -> list[str]:
        stalled_at, gone = time.monotonic() + _STALLED, -1
        submit_more()
        while self._living:
            if gone != (gone := self.seen["jobs"] - len(self._living)):
                stalled_at = time.monotonic() + _STALLED
            if time.monotonic() > stalled_at:
                return [*self.late.values(), f"these did not go: {sorted(self._living.values())}"]
            self._do_due()
            self._look()
            submit_more()
            time.sleep(_TICK / 2)
        try:
            eventually_holds(self._check_quota, within=WITHIN, every=0.2, what="all quota is given back")
        except AssertionError:
            return [*self.late.values(), f"CPUs that are still given away: {self._reserved()}"]
        return list(self.late.values())

    # Lives.

    def _submit(self, name: str, workers: int) -> str:
        queues, rng = self._queues, self._rng
        manifest = queues.manifest(name, self._queue, restart_policy="OnFailure", Worker=workers)
        with_template(manifest, "Worker", _LINGERS)
        manifest["spec"]["runPolicy"]["cleanPodPolicy"] = rng.choice(("All", "Running", "None"))
        uid = str(queues.cluster.submit(manifest)["metadata"]["uid"])
        self._living[uid] = name
        self.seen["jobs"] += 1
        return uid

    def _live(self, name: str) -> None:
        rng, uid = self._rng, self._submit(name, self._rng.randint(1, 3))
        policy = rng.choice(_POLICIES)
        before = rng.choice((None, None, None, self._delete_workload, self._delete_pods, self._deactivate))
        earlier = rng.choice((0.0, 0.05, 0.3, 1.0))

        def end(seconds: float) -> None:
            if before is not None:
                self._plan(max(seconds - earlier, 0), lambda: before(uid))
            self._plan(seconds, lambda: self._delete_job(uid, policy))

        if rng.random() < _SHARE_OF_YOUNG:
            end(rng.uniform(0, 2))
        else:
            self._when_it_has_a_pod[uid] = lambda: end(rng.uniform(0, _LONGEST_LIFE))

    def _delete_job(self, uid: str, policy: str) -> None:
        self._deleted.add(uid)
        if policy == "Orphan":
            self._orphaning.add(uid)
        queues, name = self._queues, self._living[uid]
        queues.client.delete(TFJOBS, queues.namespace, name, propagation_policy=policy)
        self.seen[policy] += 1

    def _delete_workload(self, uid: str) -> None:
        for name in self._owned(WORKLOADS, uid):
            self._queues.client.delete(WORKLOADS, self._queues.namespace, name)
            self.seen["Workloads deleted before"] += 1

    def _deactivate(self, uid: str) -> None:
        for name in self._owned(WORKLOADS, uid):
            self._queues.set_active(name, False)
            self.seen["Workloads deactivated before"] += 1

    def _delete_pods(self, uid: str) -> None:
        for name in self._owned(PODS, uid):
            self._queues.cluster.delete_pod(name)
            self.seen["pods deleted before"] += 1

    def _owned(self, resource: Resource, uid: str) -> list[str]:
        objects = self._queues.client.list(resource, self._queues.namespace, decode).items
        return [obj["metadata"]["name"] for obj in objects if uid in _owners(obj)]

    def _plan(self, seconds: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), act))

    def _do_due(self) -> None:
        while self._due and self._due[0][0] <= time.monotonic():
            with suppress(NotFoundError, ConflictError, InvalidError):  # it is gone, or another by now
                heapq.heappop(self._due)[2]()

    # Nodes.

    def _kubelet(self, pods: list[Json]) -> None:
        """Begin the life, or the end, of each pod that is new or terminates."""
        rng, cluster = self._rng, self._queues.cluster
        for pod in pods:
            uid, name = str(pod["metadata"]["uid"]), str(pod["metadata"]["name"])
            if pod["metadata"].get("deletionTimestamp") and f"{uid}-end" not in self._planned:
                self._planned.add(f"{uid}-end")
                self._plan(rng.choice((0.0, 0.3, 1.5)), lambda name=name: cluster.end_pod(name))  # type: ignore[misc]
            if uid not in self._planned:
                self._planned.add(uid)
                self.seen["pods"] += 1
                for act in [self._when_it_has_a_pod.pop(owner, None) for owner in _owners(pod)]:
                    if act is not None:
                        act()
                begins = rng.uniform(0, 0.6)
                self._plan(begins, lambda name=name: cluster.bind(name))  # type: ignore[misc]
                self._plan(begins + 0.1, lambda name=name: cluster.set_phase(name, "Running"))  # type: ignore[misc]
                if self._pods_end:
                    ends = begins + rng.uniform(0.5, 6)
                    self._plan(ends, lambda name=name: cluster.set_phase(name, "Succeeded", exit_code=0))  # type: ignore[misc]

    # The remains.

    def _look(self) -> None:
        namespace, client = self._queues.namespace, self._queues.client
        workloads, groups, pods, jobs = (
            list(client.list(resource, namespace, decode).items)
            for resource in (WORKLOADS, COSCHEDULING_POD_GROUPS, PODS, TFJOBS)
        )
        self._kubelet(pods)
        there = {str(job["metadata"]["uid"]) for job in jobs}
        running = [pod for pod in pods if pod["status"].get("phase") not in _ENDED]
        now = time.monotonic()
        for uid in [job_uid for job_uid in self._living if job_uid in self._deleted and job_uid not in there]:
            mine = [workload for workload in workloads if workload["metadata"]["labels"].get(JOB_UID_LABEL) == uid]
            names = {workload["metadata"]["name"] for workload in mine}
            if any(uid in _owners(pod) or _workload_of(pod) in names for pod in running):
                self._free_since.pop(uid, None)
                continue
            left = [*_described(mine), *_described(group for group in groups if uid in _owners(group))]
            since = self._free_since.setdefault(uid, now)
            self.longest = max(self.longest, now - since) if left else self.longest
            if not left:
                self._forget(uid)
            elif now - since > WITHIN:
                self.late[uid] = f"{self._living[uid]}: {', '.join(left)}"
                self._forget(uid)

    def _forget(self, uid: str) -> None:
        """Forget a job; objects that its owner has left by `Orphan` are deleted, as the owner would delete them."""
        name = self._living.pop(uid)
        self._free_since.pop(uid, None)
        if uid not in self._orphaning:
            return
        queues = self._queues
        for resource in (PODS, SERVICES, COSCHEDULING_POD_GROUPS):
            for item in queues.client.list(resource, queues.namespace, decode).items:
                if item["metadata"]["name"] == name or item["metadata"]["name"].startswith(f"{name}-"):
                    with suppress(NotFoundError):
                        queues.client.delete(resource, queues.namespace, item["metadata"]["name"])

    def _check_quota(self) -> None:
        assert self._reserved() == [0], self._reserved()

    def _reserved(self) -> list[int]:
        status = self._queues.client.get(CLUSTER_QUEUES, "", self._queue, decode)["status"]
        return [int(resource["total"]) for each in status["flavorsReservation"] for resource in each["resources"]]


def _owners(obj: Json) -> list[str]:
    return [str(each["uid"]) for each in obj["metadata"].get("ownerReferences") or ()]


def _workload_of(pod: Json) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(WORKLOAD_ANNOTATION, ""))


def _described(objects: Any) -> Iterator[str]:
    for obj in objects:
        meta = obj["metadata"]
        yield f"{obj['kind']} {meta['name']} (deleted at {meta.get('deletionTimestamp')}, {meta.get('finalizers')})"


def wait_collected(queues: Queues) -> None:
    """Wait until the garbage collector deletes PodGroups, too: it is slow to learn of new CRDs."""
    job = queues.submit("collected", queues.queue(1), Worker=1)
    eventually(lambda: job.pods(), within=60, every=0.2, what="a pod")
    job.delete()

    def is_gone() -> None:
        left = queues.client.list(COSCHEDULING_POD_GROUPS, queues.namespace, decode).items
        assert not left
        assert not queues.workloads(job)

    eventually_holds(is_gone, within=300, every=0.5, what="the garbage collector knows PodGroups")


def main() -> int:
    """Let jobs live in one cluster, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workloads-first", action="store_true", help="delete each Workload 0.3 s before its job")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, plans_cluster(Path(folder), "ours", gangs=True) as queues:
        wait_collected(queues)
        began = time.monotonic()
        jobs = DeletedJobs(queues, options.seed)
        try:
            left = jobs.play_workloads_first(options.jobs) if options.workloads_first else jobs.play(options.jobs)
        except KubeError as error:
            left = [f"the API server failed: {error}"]
        for problem in left:
            print(problem)
        print(
            f"{dict(jobs.seen)}, {len(left)} left something, the others were gone {jobs.longest:.1f} s after ", end=""
        )
        print(f"their last pods at most, {time.monotonic() - began:.0f} s")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
