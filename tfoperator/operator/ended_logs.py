"""Copies the logs of containers to the archive when the containers end.

So the logs stay when a client deletes the pods. An event handler puts a pod into a queue if the archive needs its logs.
A few workers take pods from the queue and copy the logs. Syncs don't wait for the copies, and other clients can delete
a pod before its logs are copied. When a process becomes the leader, it checks all existing pods, and so finds
containers that ended while there was no leader.
"""

from __future__ import annotations

import logging

from tfoperator.api.v1.types import TFJOBS, TFJob
from tfoperator.base.clock import Clock
from tfoperator.controller import is_managed_by_others
from tfoperator.informers import Callbacks, InformerGroup, Lister
from tfoperator.kube.views.objects import ObjectMeta, Pod, object_key
from tfoperator.logs.archive.writer import LogArchive
from tfoperator.workqueue import QueueMetrics, RateLimitingQueue, Workers

logger = logging.getLogger(__name__)

_CONCURRENT_PODS = 4
"""The number of pods whose logs are fetched in parallel. If a thousand pods end together, the CPU must remain free for
syncs.
"""
_MAX_WAITING = 10_000
"""The maximum number of pods in the queue. When the queue is empty, the operator looks in the cache for the pods that
did not fit.
"""
_MAX_TRIES = 5
_RETRY_BASE, _RETRY_CAP = 10.0, 80.0
"""The first and the last delay between two attempts, in seconds. The delays between the 5 attempts (`_MAX_TRIES`) are
10, 20, 40 and 80 seconds, together 2.5 minutes. This is enough for a restart of the kubelet.
"""

_LOOK_KEY = ""
"""A key in the queue that is not the key of a pod. A worker that takes this key checks all pods in the cache again."""

_LOOK_SECONDS = 1.0


class EndedLogs:
    """Archives the logs of ended containers. The constructor registers an event handler with the pod informer.

    Call `start()` when this process becomes the leader. `stop()` waits for the threads.
    """

    def __init__(
        self,
        archive: LogArchive,
        pods: InformerGroup[Pod],
        jobs: Lister[TFJob],
        *,
        clock: Clock | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._archive = archive
        self._pods = pods.lister
        self._jobs = jobs
        self._queue: RateLimitingQueue[str] = RateLimitingQueue(
            base=_RETRY_BASE, cap=_RETRY_CAP, name="logs", clock=clock, metrics=metrics
        )
        self._workers = Workers(self._queue, self._process, _CONCURRENT_PODS, thread_name="ended-logs")
        self._leading = False  # set once, by start()
        self._overflowed = False  # whether pods did not fit into the queue; `_look` finds them later
        handler = Callbacks(changed=self._offer, gone=self._gone)  # a new pod may have ended before it was observed
        pods.add_handler(handler, resync_period=0, name="archive")

    def start(self) -> None:
        """Start the workers, and check all existing pods. Call it only once, when the caches are complete."""
        self._leading = True
        self._look()
        self._workers.start()

    def stop(self, timeout: float) -> bool:
        """Take no new pod, and wait up to `timeout` seconds of real time for the copies in progress.

        Return False if a copy is still in progress.
        """
        return self._workers.stop(timeout)

    def _look(self) -> None:
        for pod in self._pods.list():
            self._offer(pod)

    def _gone(self, pod: Pod) -> None:
        """Forget a deleted pod. Logs that were not copied yet are lost with the pod."""
        self._archive.forget(pod)
        self._queue.forget(pod.metadata.key)

    def _offer(self, pod: Pod) -> None:
        if not self._leading or not self._archive.wants(pod):
            return
        if self._queue.depth() + self._queue.delayed >= _MAX_WAITING:
            if not self._overflowed:
                logger.warning(
                    "%d pods wait until their logs are kept, so the operator keeps the logs of further pods later",
                    _MAX_WAITING,
                )
            self._overflowed = True
            # The queue may have become empty meanwhile. This key ensures that a worker calls `_look`.
            self._queue.add_after(_LOOK_KEY, _LOOK_SECONDS)
            return
        self._queue.add(pod.metadata.key)

    # Work.

    def _process(self, key: str) -> None:
        try:
            if key != _LOOK_KEY:
                self._take(key)
        except Exception:
            # The thread must continue with other pods.
            logger.exception("keeping the logs of %s failed unexpectedly", key)
        if self._overflowed and (len(self._queue) == 0 or key == _LOOK_KEY):
            self._overflowed = False
            self._look()

    def _take(self, key: str) -> None:
        pod = self._pods.find(key)
        if pod is None:
            self._queue.forget(key)
            return
        job = self._job_of(pod)
        last = self._queue.num_requeues(key) >= _MAX_TRIES - 1
        if job is None or self._archive.take(job, pod, last=last):
            self._queue.forget(key)
        else:
            self._queue.add_rate_limited(key)

    def _job_of(self, pod: Pod) -> ObjectMeta | None:
        """Return the metadata of the TFJob that controls the pod, even if the TFJob no longer exists.

        Return None if the pod's controller is not a TFJob, or if another controller manages the TFJob
        (`spec.runPolicy.managedBy`).
        """
        meta, owner = pod.metadata, pod.metadata.controller
        if owner is None or owner.kind != TFJOBS.kind or owner.api_version.partition("/")[0] != TFJOBS.group:
            return None
        job = self._jobs.find(object_key(meta.namespace, owner.name))
        if job is not None and job.metadata.uid == owner.uid:
            return None if is_managed_by_others(job) else job.metadata
        return ObjectMeta(name=owner.name, namespace=meta.namespace, uid=owner.uid)
