"""Jobs that live side by side, each in a namespace of its own, with simulated kubelets and gang schedulers."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from hack.enumeration.fields.lives import GANG, plain
from hack.faults.journal import Entry
from hack.faults.plan.attachments import Attachments
from hack.faults.plan.steps import JobShape
from hack.faults.simulation.cluster import ClusterSimulator
from hack.faults.simulation.pod_groups import pod_groups_of
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import EVENTS, NAMESPACES, PODS, SERVICES
from tfoperator.kube.views.objects import decode_nothing

T = TypeVar("T")
Json = dict[str, Any]

_KINDS = {resource.kind: resource for resource in (TFJOBS, PODS, SERVICES, pod_groups_of(GANG))}
_THREADS = 8
_QUIET = 6.0
"""Seconds without a change before a job is looked at."""

_PATIENCE, _PAUSE = 600.0, 1.0
_NAMESPACE = re.compile(rb"jobs-\d{5}")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Objects:
    """All objects of all jobs, as they were last listed. Stands in for a journal's recorder, without a history."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.found: dict[str, dict[str, list[Json]]] = {}

    def look(self) -> None:
        """Look at all there is."""
        self.found = {}
        for kind, resource in _KINDS.items():
            for obj in self._client.list(resource, "", _decode).items:
                kinds = self.found.setdefault(obj["metadata"]["namespace"], {})
                kinds.setdefault(kind, []).append({**obj, "kind": kind})

    def versions(self, namespace: str) -> list[object]:
        """Return values that change when something happens to the job, but not when the operator only looks at it."""
        kinds = self.found.get(namespace, {})
        jobs: list[object] = [plain(job) for job in kinds.get("TFJob", ())]
        others = [obj["metadata"] for kind, objects in kinds.items() if kind != "TFJob" for obj in objects]
        return jobs + [(metadata["uid"], metadata["resourceVersion"]) for metadata in others]

    def plain(self, namespace: str) -> dict[str, Json]:
        """The objects of a job, without what differs from one job to another of the same spec."""
        return {f"{obj['kind']} {obj['metadata']['name']}": plain(obj) for obj in self.of(namespace, _KINDS)}

    def of(self, namespace: str, kinds: Iterable[str]) -> list[Json]:
        """The objects of a job, of these kinds, as if all jobs were in one namespace."""
        every = [obj for kind in kinds for obj in self.found.get(namespace, {}).get(kind, ())]
        same: list[Json] = msgspec.json.decode(_NAMESPACE.sub(b"ns", msgspec.json.encode(every)))
        return same


@dataclass
class _Recorder:
    objects: Objects
    namespace: str

    def current(self, kind: str) -> list[Json]:
        return self.objects.found.get(self.namespace, {}).get(kind, [])

    def entries(self) -> list[Entry]:
        return []

    def gaps(self) -> list[tuple[int, int]]:
        return []

    def add(self, obj: Json, kind: str) -> None:
        """Nothing: the next list has it."""


class Job(NamedTuple):
    """One job's namespace, and who acts there."""

    namespace: str
    simulator: ClusterSimulator


class ManyJobs:
    """All jobs of a control plane. For one thread. Methods raise KubeError unless they say otherwise."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.objects = Objects(client)
        self._made = 0
        self._pool = ThreadPoolExecutor(_THREADS)

    def job(self, shape: JobShape, attachments: Attachments) -> Job:
        """The place of a job, which is not there yet."""
        self._made += 1
        namespace = f"jobs-{self._made:05}"
        simulator = ClusterSimulator(
            self.client, namespace, (shape,), _Recorder(self.objects, namespace), lambda: datetime.now(UTC), attachments
        )
        return Job(namespace, simulator)

    def create(self, job: Job, manifest: Json) -> None:
        """Make its namespace, and the job."""
        self.client.create(NAMESPACES, "", {"metadata": {"name": job.namespace}}, decode_nothing)
        self.client.create(TFJOBS, job.namespace, manifest, decode_nothing)

    def remove(self, every: Sequence[Job]) -> None:
        """Delete their namespaces: what is in them goes in a while."""
        self.each(lambda job: self.client.delete(NAMESPACES, "", job.namespace), every)

    def each(self, act: Callable[[T], object], every: Iterable[T]) -> list[str]:
        """Do it with each, several at a time; why it was refused, or nothing. Raises no KubeError."""

        def safely(item: T) -> str:
            try:
                act(item)
            except KubeError as error:
                return str(error)
            return ""

        return list(self._pool.map(safely, every))

    def rest(
        self, every: Sequence[Job], *, progress: bool = True, succeed: bool = False, quiet: float = _QUIET
    ) -> None:
        """Let kubelets work, until nothing has changed for `quiet` seconds. Raises TimeoutError."""
        began = since = time.monotonic()
        before: object = None
        while True:
            self.objects.look()
            now = {job.namespace: self.objects.versions(job.namespace) for job in every}
            if now == before and time.monotonic() > since + quiet:
                return
            if time.monotonic() > began + _PATIENCE:
                raise TimeoutError(f"something changes for {_PATIENCE} s")
            if progress:
                self.each(lambda job: job.simulator.make_progress(succeed=succeed), every)
            time.sleep(_PAUSE)
            if now != before:
                before, since = now, time.monotonic()

    def events(self) -> dict[str, dict[str, str]]:
        """All events, by namespace, and by UID and version."""
        messages: dict[str, dict[str, str]] = defaultdict(dict)
        for item in self.client.list(EVENTS, "", _decode).items:
            meta = item["metadata"]
            message = f"{item.get('reason')}: {item.get('message')}"
            messages[meta["namespace"]][f"{meta['uid']} {meta['resourceVersion']}"] = message
        return messages
