"""Looks at one job: what the caches show, what is remembered, and what the caches do not show yet, as one value."""

from __future__ import annotations

from collections.abc import Callable

from tfoperator.api.v1.types import TFJob, TrainingProgress
from tfoperator.base.clock import Clock
from tfoperator.controller.collaborators import NO_WITNESSES, PodArchive, PodWitnesses
from tfoperator.controller.ledger import Ledger
from tfoperator.controller.observe.claim import Claimer
from tfoperator.controller.observe.informers import ControllerInformers, priorities_of
from tfoperator.controller.plan import Observed, UnkeptLogs


class Observer:
    """Makes what `plan()` takes. Thread-safe, for different jobs at a time."""

    def __init__(
        self,
        informers: ControllerInformers,
        *,
        claimer: Claimer,
        ledger: Ledger,
        clock: Clock,
        archive: PodArchive | None = None,
        progress_of: Callable[[TFJob], TrainingProgress | None] | None = None,
        witnesses: PodWitnesses = NO_WITNESSES,
        server_load: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`progress_of` says what a job has reported by now, if reports are taken here.

        `server_load` says how busy the API server is, from 0 to 1.
        """
        self._claimer = claimer
        self._ledger = ledger
        self._clock = clock
        self._archive = archive
        self._progress_of = progress_of
        self._witnesses = witnesses
        self._server_load = server_load
        classes = informers.priority_classes
        self._priority_classes = None if classes is None else classes.lister

    def observe(self, cached: TFJob) -> Observed:
        """Everything that is known of the job. No API call, unless an orphan is to be adopted or a stray released.

        Raises KubeError (a ConflictError when the cache is behind) if that fails but by a refusal.
        """
        remembered = self._ledger.memory.recall(cached, self._clock.monotonic())
        newest, unseen = self._ledger.cache_lag.look(cached)
        job = TFJob(
            metadata=newest.metadata, spec=remembered.spec, status=newest.status, decode_error=cached.decode_error
        )
        claimed = self._claimer.claim(job)
        archive = self._archive
        policy = job.spec.run_policy
        # Jobs without a deadline ask nobody.
        watched = policy is not None and policy.progress_deadline_seconds is not None
        ends = policy is not None and policy.active_deadline_seconds is not None
        logs = self._witnesses.logs if watched else None
        stacks = self._witnesses.stacks if watched or ends else None
        return Observed(
            job=job,
            pods=claimed.pods,
            services=claimed.services,
            problems=remembered.problems,
            pod_group=claimed.pod_group,
            priorities={} if self._priority_classes is None else priorities_of(self._priority_classes.list()),
            deployments=claimed.deployments,
            unseen=unseen,
            unkept_logs=None if archive is None else UnkeptLogs(archive.unkept(claimed.pods), archive.timeout),
            known_for=remembered.known_for,
            comparison=remembered.comparison,
            edited_templates=remembered.edited_templates,
            progress=None if self._progress_of is None else self._progress_of(job),
            log_lines=None if logs is None else logs.known(job.metadata.uid),
            stacks_taken=None if stacks is None else stacks.taken(job.metadata.uid),
            uncounted_types=remembered.uncounted_types,
            server_load=self._server_load(),
            status_waited=remembered.status_waited,
            refused=claimed.refused,
        )
