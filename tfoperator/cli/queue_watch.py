"""A job's state in its queue during a wait: Kueue changes it without changing the job."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing

from tfoperator.api.job_conditions import final_condition
from tfoperator.api.queues import JOB_UID_LABEL
from tfoperator.api.v1.types import TFJob
from tfoperator.api.workloads import Workload, decode_workload
from tfoperator.kube import Selection
from tfoperator.kube.errors import KubeError, NotFoundError
from tfoperator.kube.verbs import ApiClient, WatchEventType
from tfoperator.sdk import Follower, JobQueue
from tfoperator.sdk.queues import in_queue, queue_of
from tfoperator.sdk.workloads import WORKLOADS

logger = logging.getLogger(__name__)


class QueueWatch:
    """Reports the state of a job and its queue, whenever either changes. A context manager.

    A job without a queue costs no request. For one with a queue a thread watches its Workload until the block's end.
    """

    def __init__(self, client: ApiClient, show: Callable[[TFJob, JobQueue | None], object]) -> None:
        """`show` is called from the thread that calls `saw_job` and from a separate one, never concurrently."""
        self._client = client
        self._show = show
        self._lock = threading.Lock()  # guards the fields below, and calls of _show, which only sets a text
        self._job: TFJob | None = None
        self._workloads: dict[str, Workload] = {}  # by UID
        self._known = False  # whether the Workloads have been listed
        self._closed = False
        self._follower: Follower[Workload] | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> QueueWatch:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            follower, thread = self._follower, self._thread
        if follower is not None:
            follower.close()
        if thread is not None:
            thread.join()

    def saw_job(self, job: TFJob) -> None:
        """Record the job's present state."""
        with self._lock:
            self._job = job
            self._tell()
            if self._thread is None and in_queue(job) and final_condition(job) is None:
                self._thread = threading.Thread(target=self._run, args=(job,), name="queue-watch", daemon=True)
                self._thread.start()

    def _tell(self) -> None:
        if self._job is not None:
            queue = queue_of(self._job, list(self._workloads.values())) if self._known else None
            self._show(self._job, queue)

    def _run(self, job: TFJob) -> None:
        selection = Selection(label_selector=f"{JOB_UID_LABEL}={job.metadata.uid}")
        for resource in WORKLOADS:
            follower = Follower(self._client, resource, job.metadata.namespace, decode_workload, selection)
            with self._lock:
                if self._closed:
                    return
                self._follower = follower
            try:
                self._follow(follower)
            except NotFoundError:  # another version of Kueue, or none
                continue
            except KubeError as error:
                logger.debug("no news of the queue: %s", error)
            return

    def _follow(self, follower: Follower[Workload]) -> None:
        with closing(iter(follower)) as changes:
            for change in changes:
                with self._lock:
                    if change.object is None:
                        self._known = True
                    elif change.type is WatchEventType.DELETED:
                        self._workloads.pop(change.object.metadata.uid, None)
                    else:
                        self._workloads[change.object.metadata.uid] = change.object
                    if self._known and not self._closed:
                        self._tell()
