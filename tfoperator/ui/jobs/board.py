"""The caches of the cluster's jobs, pods and events, and the notification of pages about changes.

Here, a page is a browser tab that shows the page of `tfoperator ui`. All pages share a single watch of each kind of
objects. The watches start when the first page is opened. The informers' threads report changes. The stream of a page
runs in the event loop, and reads all changes since its last read together.
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
    """The reasons why kinds of objects, such as `pods`, can't be read at the moment.

    The informers call the methods of this class. If the page shows only some namespaces, a kind has an informer for
    each namespace, with a name such as `pods/default`. The kind counts as readable only if each of these informers can
    read its objects. Thread-safe: each informer changes only its own entry.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._problems: dict[str, str] = {}  # by informer; "" if the informer has no problem
        self._unwatched: set[str] = set()  # informers whose last attempt to watch was refused

    @property
    def problems(self) -> dict[str, str]:
        """The reason why a kind can't be read, such as `Forbidden`, by kind. Kinds that can be read are missing.

        If a kind has several informers, the reason also contains the namespaces: `Forbidden in default`.
        """
        by_kind: dict[str, dict[str, list[str]]] = {}
        for informer, reason in sorted(self._problems.copy().items()):
            kind, _, namespace = informer.partition("/")
            by_kind.setdefault(kind, {}).setdefault(reason, []).append(namespace)
        return {kind: problem for kind, reasons in by_kind.items() if (problem := _in_words(reasons))}

    def list_failed(self, informer: str, reason: str) -> None:
        """Record that an informer can't list its objects."""
        self._set(informer, reason)

    def watch_failed(self, informer: str, reason: str) -> None:
        """Record that an informer's watch failed. Only a repeated failure is a problem.

        A single failure is normal: the resourceVersion from which the watch should continue may have expired.
        """
        if informer in self._unwatched:
            self._set(informer, reason)
        self._unwatched.add(informer)

    def list_finished(self, informer: str, seconds: float, items: int) -> None:  # noqa: ARG002 - the hook's signature
        """Record that an informer has listed its objects. If its last watch failed, its recorded problem stays.

        The user may have the right to list a kind, but not the right to watch the kind. Then the informer lists the
        objects again and again, and its data is out of date between two lists.
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
    """Return the reasons as a text. With several informers, the text contains the namespaces, too.

    `reasons` contains the namespaces by reason. The reason "" means that these namespaces have no problem. Without any
    problem, the result is "".
    """
    several = sum(map(len, reasons.values())) > 1
    problems = ((reason, namespaces) for reason, namespaces in reasons.items() if reason)
    return "; ".join(f"{reason} in {', '.join(namespaces)}" if several else reason for reason, namespaces in problems)


class Board:
    """The caches of jobs, pods and events from which all pages get their data.

    `start()` may be called several times. At the end, call `stop()`. Thread-safe.
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
        """Create the informers, but do not start them.

        `namespaces` are the namespaces to watch; "" means all namespaces. If `client` reads the records of a run of
        `tfoperator run`, `run` is this run. `history` records changes of jobs. Its default is a new History.
        """
        self.local = local
        """Whether the cluster is the control plane that `tfoperator` runs on this machine."""
        self._run = run
        self.closed = False
        """Whether another board has replaced this board. If so, the streams of this board end. The pages then open
        streams of the other board.
        """
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
        """Start the watches, unless the watches have started already, or the board was stopped."""
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
        """End all streams of this board. The pages then open streams of the board that has replaced this board.

        Any thread may call this method.
        """
        self.closed = True
        self.tell_all()

    @property
    def ended(self) -> bool:
        """Whether the board shows a recorded run that has ended. Such a run does not change any more."""
        return self._run is not None and not self._run.goes_on

    @property
    def synced(self) -> bool:
        """Whether the cache of jobs is complete.

        The caches of pods and events may be empty, because the user may have no right to read them.
        """
        return self._jobs.has_synced

    def jobs(self) -> list[TFJob]:
        """Return all jobs, in no particular order."""
        return self._jobs.lister.list()

    def job(self, key: str) -> TFJob | None:
        """Return the job `namespace/name`, or None if it is not in the cache."""
        return self._jobs.lister.find(key)

    def job_of_uid(self, uid: str) -> TFJob | None:
        """Return the job with this UID, or None if it is not in the cache."""
        return next((job for job in self.jobs() if job.metadata.uid == uid), None)

    def pods(self, job: TFJob) -> list[SeenPod]:
        """Return all pods of the job except the pod of the job's TensorBoard."""
        pods = self._pods.lister.by_index(CONTROLLER_UID_INDEX, job.metadata.uid)
        return [pod for pod in pods if LABEL_TENSORBOARD not in pod.metadata.labels]

    def now(self) -> datetime:
        """Return the current time of this machine's clock.

        Some texts need the current time, for example the reason why a pod waits.
        """
        return self._clock.now()

    def events(self, job: TFJob) -> list[Event]:
        """Return the events of the job, its pods and its other objects, the oldest first."""
        return events_of(job, self._events.lister.by_index(_JOB_INDEX, job.metadata.key))

    def tell_all(self) -> None:
        """Notify all pages of a change that belongs to no job, such as a new entry in `health.problems`."""
        self.tell("")

    def tell(self, key: str) -> None:
        """Notify all pages that the job `namespace/name` has changed. Any thread may call this method."""
        self.listeners.tell(key)

    # The informers' threads call the following methods.

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
    """All data about the jobs of a cluster: objects (`board`), usage of resources (`usage`) and queues (`queues`).

    The server calls `watch` at the latest when the first page is opened.
    """

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
        """The recorded run from which `client` reads, or None if `client` reads from a cluster."""
        self.board = Board(client, namespaces=namespaces, local=local, run=run, history=history)
        for uid, curves in ({} if run is None else run.curves).items():
            self.board.history.know_curves(uid, curves)
        self.usage = UsageSamples(client, namespaces=namespaces, on_round=self.board.tell_all)
        self.queues = Queues(client, self.board.jobs, self.board.tell)

    def watch(self) -> None:
        """Start to fill all caches. If the caches were started already, do nothing. Thread-safe."""
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
    """Return the keys for the index that finds events by job: the key of the job of this event, or no key."""
    name = job_named(event)
    return (f"{event.involved_object.namespace}/{name}",) if name else ()
