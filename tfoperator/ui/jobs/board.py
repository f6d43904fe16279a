"""The caches of the cluster's jobs, and the notification of pages.

There is one watch of each kind for all pages together. The watches start when the first page is opened. Changes come
from the informers' threads. A page is notified in its event loop, with one notification for many changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tfoperator.api.replicas.names import LABEL_JOB_NAME, LABEL_TENSORBOARD, MANAGED_SELECTOR, replica_name
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.base.clock import SystemClock
from tfoperator.informers import (
    CONTROLLER_UID_INDEX,
    Callbacks,
    InformerMetrics,
    SharedInformerFactory,
    index_by_controller_uid,
)
from tfoperator.kube import EVERYTHING, PODS, Selection
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.resources import EVENTS
from tfoperator.kube.protocol.verbs import ApiClient
from tfoperator.kube.views.event import Event, decode_event
from tfoperator.sdk.events import events_of, job_named
from tfoperator.ui.jobs.history import History
from tfoperator.ui.jobs.objects import SeenPod, decode_pod
from tfoperator.ui.jobs.queues import Queues
from tfoperator.ui.jobs.usage import UsageSamples
from tfoperator.ui.listening import Listeners

if TYPE_CHECKING:
    from tfoperator.local.run.recorded_run import RecordedRun

_JOB_INDEX = "job"


class Health(InformerMetrics):
    """The reasons why kinds of objects can't be read now, by the plural of the kind.

    Thread-safe, because each informer has its own entry. There are informers for each namespace. A kind counts as
    readable only if all its informers can read it.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._problems: dict[str, str] = {}  # by informer, "" for one without
        self._unwatched: set[str] = set()  # informers whose last attempt to watch was refused

    @property
    def problems(self) -> dict[str, str]:
        """The reasons. Each reason is a word from the API server or from the connection.

        If several informers read a kind, each reason is shown with its namespaces.
        """
        found: dict[str, dict[str, list[str]]] = {}
        for informer, reason in sorted(self._problems.copy().items()):
            kind, _, namespace = informer.partition("/")
            found.setdefault(kind, {}).setdefault(reason, []).append(namespace)
        return {kind: problem for kind, reasons in found.items() if (problem := _in_words(reasons))}

    def list_failed(self, informer: str, reason: str) -> None:
        """Record that an informer can't list its objects."""
        self._set(informer, reason)

    def watch_failed(self, informer: str, reason: str) -> None:
        """Record that a watch failed.

        A single failure may be caused by an expired version. A repeated failure is a problem.
        """
        if informer in self._unwatched:
            self._set(informer, reason)
        self._unwatched.add(informer)

    def list_finished(self, informer: str, seconds: float, items: int) -> None:  # noqa: ARG002 - the hook's signature
        """Record that an informer has listed its objects.

        If a kind may be listed but not watched, it is listed repeatedly, and its data is old between two lists.
        """
        if informer not in self._unwatched:
            self._set(informer, "")

    def watch_started(self, informer: str) -> None:
        """Record that an informer's watch has started."""
        self._unwatched.discard(informer)
        self._set(informer, "")

    def _set(self, informer: str, reason: str) -> None:
        before = self._problems.get(informer, "")
        self._problems[informer] = reason
        if before != reason:
            self._changed()


def _in_words(reasons: Mapping[str, Sequence[str]]) -> str:
    """Return the problem with the namespaces in which it occurs. Return "" if there is no problem."""
    several = sum(map(len, reasons.values())) > 1
    problems = ((reason, namespaces) for reason, namespaces in reasons.items() if reason)
    return "; ".join(f"{reason} in {', '.join(namespaces)}" if several else reason for reason, namespaces in problems)


class Board:
    """The caches from which all pages get their data.

    Call `start()` as often as you like, then `stop()`. Thread-safe.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        namespaces: Sequence[str] = ("",),
        local: bool = False,
        run: RecordedRun | None = None,
        history: History | None = None,
    ) -> None:
        """Initialize; if `history` is given, the board adds to it."""
        self.local = local
        """Whether the cluster is the control plane of this machine."""
        self._run = run
        self.closed = False
        """Whether pages must request their streams again, because another board has replaced this board."""
        self._clock = SystemClock()
        self.history = history or History()
        self.health = Health(self.tell_all)
        self.listeners = Listeners()
        self._lock = threading.Lock()  # guards the fields below
        self._started = self._stopped = False
        self._informers = SharedInformerFactory(client, namespaces=namespaces, metrics=self.health)
        self._jobs = self._informers.informer(TFJOBS, decode_tfjob)
        managed = Selection(label_selector=MANAGED_SELECTOR)
        owned = {CONTROLLER_UID_INDEX: index_by_controller_uid}
        self._pods = self._informers.informer(PODS, decode_pod, managed, indexers=owned)
        self._events = self._informers.informer(EVENTS, decode_event, EVERYTHING, indexers={_JOB_INDEX: _jobs_of})
        self._jobs.add_handler(Callbacks(changed=self._job_changed, gone=lambda job: self.tell(job.metadata.key)))
        self._pods.add_handler(Callbacks(changed=self._pod_changed, gone=self._pod_gone))
        self._events.add_handler(Callbacks(changed=self._event_changed))

    def start(self) -> None:
        """Start to watch, unless the watches have started already."""
        with self._lock:
            if self._started or self._stopped:
                return
            self._started = True
        self._informers.start()

    def stop(self) -> bool:
        """End all threads. Return False if a thread is still busy after 10 s. Idempotent."""
        with self._lock:
            self._stopped = True
            if not self._started:
                return True
        return self._informers.stop()

    def close(self) -> None:
        """End the streams of all pages; the pages then request them again. Any thread may call it."""
        self.closed = True
        self.tell_all()

    @property
    def ended(self) -> bool:
        """Whether the board shows a run that has ended. Then no more changes are possible."""
        return self._run is not None and not self._run.goes_on

    @property
    def synced(self) -> bool:
        """Whether the jobs were listed.

        Pods and events are not included, because the user may have no right to read them.
        """
        return self._jobs.has_synced

    def jobs(self) -> list[TFJob]:
        """Return all jobs, in no particular order."""
        return self._jobs.lister.list()

    def job(self, key: str) -> TFJob | None:
        """Return a job by `namespace/name`."""
        return self._jobs.lister.find(key)

    def job_of_uid(self, uid: str) -> TFJob | None:
        """Return a job by its UID."""
        return next((job for job in self.jobs() if job.metadata.uid == uid), None)

    def pods(self, job: TFJob) -> list[SeenPod]:
        """Return the pods of the job's replicas."""
        pods = self._pods.lister.by_index(CONTROLLER_UID_INDEX, job.metadata.uid)
        return [pod for pod in pods if LABEL_TENSORBOARD not in pod.metadata.labels]

    def now(self) -> datetime:
        """Return the time by the clock of this process. The states of pods are computed for this time."""
        return self._clock.now()

    def events(self, job: TFJob) -> list[Event]:
        """Return the events of the job and of its parts, the oldest first."""
        return events_of(job, self._events.lister.by_index(_JOB_INDEX, job.metadata.key))

    def tell_all(self) -> None:
        """Notify all pages of a change that does not belong to a job."""
        self.tell("")

    def tell(self, key: str) -> None:
        """Notify the pages that show a job, because the job has changed. Any thread may call it."""
        self.listeners.tell(key)

    # Called by informers' threads.

    def _job_changed(self, job: TFJob) -> None:
        if job.status.progress is not None:
            self.history.saw_progress(job.metadata.uid, job.status.progress, self._clock.now())
        if job.status.usage is not None:
            self.history.saw_usage(job.metadata.uid, job.status.usage)
        self.tell(job.metadata.key)

    def _pod_changed(self, pod: SeenPod) -> None:
        owner = pod.metadata.controller
        if owner is not None and owner.kind == TFJOBS.kind:
            self.history.saw_pod(owner.uid, pod, replica_name(pod), self._clock.now())
        self.tell(_key(pod))

    def _pod_gone(self, pod: SeenPod) -> None:
        owner = pod.metadata.controller
        if owner is not None:
            self.history.lost_pod(owner.uid, pod.metadata.uid, self._clock.now())
        self.tell(_key(pod))

    def _event_changed(self, event: Event) -> None:
        for key in _jobs_of(event):
            self.tell(key)


class Cluster:
    """The caches of a cluster's jobs. They are watched from the time at which the first page is opened."""

    def __init__(
        self,
        client: Client,
        namespaces: Sequence[str],
        local: bool,
        run: RecordedRun | None = None,
        history: History | None = None,
    ) -> None:
        self.client = client
        self.run = run
        """The recorded run to which `client` belongs."""
        self.board = Board(client, namespaces=namespaces, local=local, run=run, history=history)
        for uid, curves in ({} if run is None else run.curves).items():
            self.board.history.know_curves(uid, curves)
        self.usage = UsageSamples(client, namespaces=namespaces, on_round=self.board.tell_all)
        self.queues = Queues(client, self.board.jobs, self.board.tell)

    def watch(self) -> None:
        """Start to watch, unless the watches have started already. Thread-safe."""
        self.board.start()
        self.usage.start()
        self.queues.start()

    def stop(self) -> None:
        """End all threads, and close the client."""
        self.client.close()
        self.board.stop()
        self.usage.stop()
        self.queues.stop()


def _key(pod: SeenPod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.labels.get(LABEL_JOB_NAME, '')}"


def _jobs_of(event: Any) -> Sequence[str]:
    """Return the key of the job to which an event may refer."""
    name = job_named(event)
    return (f"{event.involved_object.namespace}/{name}",) if name else ()
