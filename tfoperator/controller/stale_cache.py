"""Asks the API server, before a plan is carried out, where the cache may be behind what others have seen and done.

A new leader's cache can be behind its predecessor's: behind the pods that it created, or behind the end of the job,
after which it cleaned them up, or behind the user's resuming it. Asking is rare and costs a GET of the job and one per
pod that has vanished; believing the cache would cost a restart that never was, run a finished job again, or take the
pods from a running one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from datetime import datetime
from functools import partial

from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.clock import Clock
from tfoperator.controller.actions import Plan
from tfoperator.controller.claim import Claimer, matches
from tfoperator.controller.slow_start import CallPool
from tfoperator.controller.times import seconds_between, whole_second
from tfoperator.kube.errors import KubeError, NotFoundError
from tfoperator.kube.objects import Pod, decode_partial
from tfoperator.kube.resources import PODS
from tfoperator.kube.verbs import ApiClient

__all__ = ["CacheCheck", "StaleCache"]


class StaleCache(KubeError):
    """The cache misses an object that is there; acting on it would count a loss that has not happened."""


class CacheCheck:
    """Knows which jobs were inherited, and looks up what is doubtful. Thread-safe, for different jobs at a time."""

    def __init__(self, client: ApiClient, claimer: Claimer, pool: CallPool, clock: Clock) -> None:
        self._client = client
        self._claimer = claimer
        self._pool = pool
        self._clock = clock
        self._since: datetime | None = None  # when we began to lead
        # UIDs of jobs that others may have worked on until we began to lead, and that we have not acted on since. Only
        # a job's own sync takes it out, and jobs are never put in again.
        self._inherited: set[str] = set()

    def inherit(self, jobs: Iterable[TFJob]) -> None:
        """We begin to lead: others may have worked on these jobs until now."""
        self._inherited.update(job.metadata.uid for job in jobs)
        self._since = whole_second(self._clock.now())

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._inherited.discard(uid)

    def verify(self, job: TFJob, plan: Plan, pods: Sequence[Pod]) -> None:
        """Look up the job, and pods that vanished without our doing, if the plan depends on what the cache says.

        `pods` are the job's in the cache. Raises StaleCache if the cache is behind, or another KubeError.
        """
        doubtful = job.metadata.uid in self._inherited or self._came_late(job)
        if not plan.absent and not (doubtful and plan.acts):
            return
        seen = {pod.metadata.uid for pod in pods}
        calls: list[Callable[[], str]] = [partial(self._is_there, job, name, seen) for name in plan.absent]
        calls.append(partial(self._has_changed, job))
        unseen = [what for what in self._pool.all(calls) if what]
        if unseen:
            raise StaleCache(f"{unseen[0]}, but the cache does not show it yet")
        self._inherited.discard(job.metadata.uid)

    def _came_late(self, job: TFJob) -> bool:
        """Whether this is the first state of a job that was there before we began to lead: the watch lags.

        Later states name the pods that were started, and whose absence is asked about in any case. The API server's
        clock is compared with ours: a skew costs a GET for jobs that are made in our first seconds.
        """
        created = job.metadata.creation_timestamp
        if job.status.conditions or created is None or self._since is None:
            return False
        return seconds_between(created, self._since) > 0

    def _is_there(self, job: TFJob, name: str, seen: Set[str]) -> str:
        try:
            meta = self._client.get(PODS, job.metadata.namespace, name, decode_partial).metadata
        except NotFoundError:
            return ""
        if meta.controller is None or meta.controller.uid != job.metadata.uid or meta.uid in seen:
            # If the cache shows it, then not as this replica: somebody changed its labels.
            return ""
        if not matches(meta.labels, job.metadata.name):
            # Without our labels no cache will ever show it, however long we wait.
            self._claimer.release(job, PODS, meta, decode_partial)
            return ""
        return f"pod {name} is there"

    def _has_changed(self, job: TFJob) -> str:
        meta = job.metadata
        try:
            live = self._client.get(TFJOBS, meta.namespace, meta.name, decode_partial).metadata
        except NotFoundError:
            return "the job is gone"
        return "" if live.resource_version == meta.resource_version else "the job has changed"
