"""The Lease object that candidates compete for, and the client that reads and writes it.

Optimistic concurrency decides who wins: every write contains the resourceVersion that was read, so the API server lets
exactly one of two candidates win. `LeaseLock` keeps no state; the state that was read is in a `Lease`, so an abandoned
attempt can't disturb a later attempt.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from tfoperator.kube.protocol.resources import LEASES
from tfoperator.kube.protocol.verbs import ApiClient

_NAMES = {
    "holder": "holderIdentity",
    "duration_seconds": "leaseDurationSeconds",
    "acquired": "acquireTime",
    "renewed": "renewTime",
    "transitions": "leaseTransitions",
}


class LeaseRecord(msgspec.Struct, frozen=True, rename=_NAMES):
    """The fields of a lease's `spec`: its holder, the times when it was acquired and renewed, and its duration."""

    holder: str = ""
    """The identity of the holder; "" if the lease has no holder."""
    duration_seconds: int = 0
    acquired: datetime | None = None
    renewed: datetime | None = None
    transitions: int = 0
    """How many times the holder has changed."""


class Lease(msgspec.Struct, frozen=True):
    """One state of the Lease object.

    `record` has the fields of its `spec`. `manifest` is the whole object, with the resourceVersion that the next write
    needs.
    """

    record: LeaseRecord
    manifest: dict[str, Any]


class LeaseLock:
    """Reads and writes one Lease for one candidate. It is thread-safe. It raises KubeError, as the client does.

    `identity` must be unique among all processes that ever compete for the lease (host name plus a random part): a
    process that finds its own identity in the lease regards itself as the leader.
    """

    def __init__(self, client: ApiClient, *, namespace: str, name: str, identity: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self.identity = identity

    def __str__(self) -> str:
        return f"{self._namespace}/{self._name}"

    def get(self) -> Lease:
        """Fetch the lease. Raises NotFoundError if there is no lease."""
        return self._client.get(LEASES, self._namespace, self._name, _decode)

    def create(self, record: LeaseRecord) -> Lease:
        """Create the lease. Raises AlreadyExistsError if another candidate has created it before."""
        manifest = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": _spec(record),
        }
        return self._client.create(LEASES, self._namespace, manifest, _decode)

    def update(self, lease: Lease, record: LeaseRecord) -> Lease:
        """Write a new record, if the lease has not changed since it was read. The other parts of the object stay.

        Raises ConflictError if the lease has changed since it was read.
        """
        manifest = {**lease.manifest, "spec": {**(lease.manifest.get("spec") or {}), **_spec(record)}}
        return self._client.replace(LEASES, self._namespace, self._name, manifest, _decode)


def _decode(data: bytes) -> Lease:
    manifest = msgspec.json.decode(data, type=dict[str, Any])
    spec = msgspec.convert(manifest.get("spec") or {}, dict[str, Any])
    record = {name: value for name, value in spec.items() if value is not None}
    return Lease(msgspec.convert(record, LeaseRecord), manifest)


def _spec(record: LeaseRecord) -> dict[str, Any]:
    times = {_NAMES[name]: _micro_time(getattr(record, name)) for name in ("acquired", "renewed")}
    return dict(msgspec.to_builtins(record), **times)


def _micro_time(time: datetime | None) -> str | None:
    """Return the `metav1.MicroTime`: RFC 3339 with exactly six digits after the decimal point. Return None for None."""
    return None if time is None else f"{time:%Y-%m-%dT%H:%M:%S.%fZ}"
