"""What a pod's worker asks of the API server."""

from __future__ import annotations

from typing import Protocol

from tfoperator.local.node.expansion import Sources, Tokens
from tfoperator.local.runtime import LocalPod


class PodApi(Protocol):
    """What a pod's worker needs of the API server. Its methods never raise; failures are logged."""

    def bind(self, pod: LocalPod) -> bool:
        """Assign the pod to this node, unless it is already. False if that can't be done: leave the pod alone."""
        ...

    def report(self, pod: LocalPod, status: dict[str, object]) -> None:
        """Write the pod's status."""
        ...

    def finalise(self, pod: LocalPod) -> None:
        """Remove the pod's object for good, now that nothing of it runs."""
        ...

    def sources(self, namespace: str) -> Sources:
        """Lookup of ConfigMaps and Secrets."""
        ...

    def tokens(self, pod: LocalPod) -> Tokens:
        """Where the pod gets tokens of its service account."""
        ...

    def services(self) -> frozenset[tuple[str, str]]:
        """(namespace, name) of every service."""
        ...

    def services_of(self, pod: LocalPod) -> tuple[str, ...]:
        """The names of the services that select the pod. The one that may raise: NotYet."""
        ...

    def event(self, pod: LocalPod, kind: str, reason: str, message: str) -> None:
        """Record an event about the pod; `kind` is Normal or Warning."""
        ...
