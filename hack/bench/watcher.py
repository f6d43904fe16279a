"""Sees what happens to TFJobs and pods, and when, through two watches of its own."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from hack.bench.loads import NAMESPACE, Load
from hack.bench.paths import pods_path, tfjobs_path
from hack.bench.raw_http import RawClient
from hack.controlplane import ControlPlane

_CHANGES = ("ADDED", "MODIFIED", "DELETED")
_ENDS = ("Succeeded", "Failed")
_LOOK_SECONDS = 0.05
_TELL_SECONDS = 5.0


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    resource_version: str = ""


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Counts(msgspec.Struct):
    active: int = 0
    succeeded: int = 0


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    conditions: list[_Condition] | None = None
    replica_statuses: dict[str, _Counts] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    status: _Status = msgspec.field(default_factory=_Status)


class Event(msgspec.Struct):
    """One line of a watch, of a TFJob or a pod."""

    type: str
    object: _Object


class _List(msgspec.Struct):
    metadata: _Meta


_decode_event = msgspec.json.Decoder(Event).decode
_decode_list = msgspec.json.Decoder(_List).decode


_See = Callable[[Event, float], None]


class Observations:
    """Everything seen so far; moments are `time.monotonic()`. Read it under `Watcher.lock`."""

    def __init__(self) -> None:
        self.job_created: dict[str, float] = {}
        self.job_running: dict[str, float] = {}
        self.job_ended: dict[str, float] = {}
        self.job_failed: set[str] = set()
        self.pod_created: dict[str, float] = {}  # by name
        self.pod_running: dict[str, float] = {}
        self.phases: dict[str, str] = {}  # of the pods that are there, by name
        self.running = 0  # pods that run now
        self.active: dict[str, int] = {}  # pods that a job's status calls active
        self.active_since: dict[str, float] = {}  # when that number last changed
        self.pods_made: Counter[str] = Counter()  # how many pods a name has had
        self.uids: dict[str, str] = {}  # of the pod that was last seen, by name
        self.killed: dict[str, tuple[str, float]] = {}  # UID and moment, of those whose successor does not run yet
        self.healed: list[float] = []  # seconds from a kill to the successor's Running
        self.last_healed = 0.0

    def see_job(self, event: Event, now: float) -> None:
        """A TFJob was created or changed."""
        name, status = event.object.metadata.name, event.object.status
        self.job_created.setdefault(name, now)
        active = sum(counts.active for counts in (status.replica_statuses or {}).values())
        if self.active.get(name) != active:
            self.active[name], self.active_since[name] = active, now
        for condition in status.conditions or ():
            if condition.status != "True":
                continue
            if condition.type == "Running":
                self.job_running.setdefault(name, now)
            elif condition.type in _ENDS:
                self.job_ended.setdefault(name, now)
                if condition.type == "Failed":
                    self.job_failed.add(name)

    def see_pod(self, event: Event, now: float) -> None:
        """A pod was created, changed or deleted."""
        name, uid, phase = event.object.metadata.name, event.object.metadata.uid, event.object.status.phase
        self.uids[name] = uid
        before = self.phases.get(name, "")
        if event.type == "ADDED":
            self.pods_made[name] += 1
            self.pod_created.setdefault(name, now)
        if event.type == "DELETED":
            self.phases.pop(name, None)
            phase = ""
        else:
            self.phases[name] = phase
        if phase == "Running":
            self.pod_running.setdefault(name, now)
            victim, moment = self.killed.get(name, (uid, now))
            if victim != uid:
                self.healed.append(now - moment)
                self.last_healed = now
                del self.killed[name]
        self.running += (phase == "Running") - (before == "Running")

    def kill(self, name: str, now: float) -> None:
        """The pod of this name is about to be killed."""
        self.killed[name] = (self.uids[name], now)


class Watcher:
    """Watches from `start()` to `stop()`; `wait` blocks until something holds."""

    def __init__(self, plane: ControlPlane, client: RawClient, say: Callable[[str], None]) -> None:
        self.lock = threading.Lock()  # guards `seen` and `_error`
        self.seen = Observations()
        self._error: Exception | None = None
        self._plane = plane
        self._client = client
        self._say = say
        self._stopping = False
        self._sockets: dict[str, socket.socket] = {}  # by path; guarded by `lock`, too
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to watch; whatever happens from now on is seen."""
        followed = ((tfjobs_path, self.seen.see_job), (pods_path, self.seen.see_pod))
        for path, see in ((path_of(NAMESPACE), see) for path_of, see in followed):
            version = _decode_list(self._client.request("GET", path)).metadata.resource_version
            first = self._open(path, version)
            arguments = (path, version, first, see)
            thread = threading.Thread(target=self._follow, args=arguments, name=f"watch {path}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End the watches and their threads."""
        with self.lock:
            self._stopping = True
            for sock in self._sockets.values():
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        for sock in self._sockets.values():
            sock.close()

    def wait(self, what: str, holds: Callable[[Observations], bool], timeout: float) -> None:
        """Wait until `holds`, looking now and then. Raises TimeoutError, whose message is what was seen instead.

        It does not wake up for every event, which would take CPU from the contestant; moments are noted by the watches.
        """
        began = reported_at = time.monotonic()
        while True:
            with self.lock:
                if self._error is not None:
                    raise self._error
                if holds(self.seen):
                    return
                now, summary = time.monotonic(), self._summary()
            if now >= began + timeout:
                raise TimeoutError(f"not within {timeout:.0f} s: {what}; seen: {summary}")
            if now >= reported_at + _TELL_SECONDS:
                self._say(f"after {now - began:.0f} s: {summary}")
                reported_at = now
            time.sleep(_LOOK_SECONDS)

    def _summary(self) -> str:
        observed = self.seen
        return (
            f"{len(observed.job_created)} jobs, {len(observed.job_running)} have run, {len(observed.job_ended)} ended, "
            f"{len(observed.job_failed)} failed; {len(observed.phases)} pods, {observed.running} running"
        )

    def _open(self, path: str, version: str) -> http.client.HTTPResponse:
        context = ssl.create_default_context(cafile=self._plane.ca_file)
        connection = http.client.HTTPSConnection(urlsplit(self._plane.url).netloc, context=context)
        target = f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=7200"
        connection.request("GET", target, headers={"Authorization": f"Bearer {self._plane.token}"})
        with self.lock:
            before = self._sockets.pop(path, None)
            self._sockets[path] = connection.sock
        if before is not None:
            before.close()
        return connection.getresponse()

    def _follow(self, path: str, version: str, stream: http.client.HTTPResponse, see: _See) -> None:
        try:
            while not self._stopping:
                for line in stream:
                    event = _decode_event(line)
                    if event.type not in _CHANGES:
                        raise ConnectionError(f"a watch of the benchmark can't go on: {line[:300]!r}")
                    now, version = time.monotonic(), event.object.metadata.resource_version
                    with self.lock:
                        see(event, now)
                # API servers end the watches of a custom resource when they have something new to say about its kind.
                if not self._stopping:
                    stream = self._open(path, version)
        except (OSError, http.client.HTTPException, ValueError, msgspec.DecodeError) as error:
            with self.lock:
                if not self._stopping:
                    self._error = error


def all_running(load: Load) -> Callable[[Observations], bool]:
    """Every job has been Running, and every pod runs."""
    return lambda observed: len(observed.job_running) == load.jobs and observed.running == load.pods


def all_reported(load: Load) -> Callable[[Observations], bool]:
    """Return whether every job's status counts all pods of the job as active."""
    pods = load.ps + load.workers
    return lambda observed: (
        len(observed.active) == load.jobs and all(count == pods for count in observed.active.values())
    )
