"""An API client without a network. It sends one request after another; the real client sends requests in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from tfoperator.kube.protocol.errors import KubeError, Status, error_from_status
from tfoperator.kube.protocol.options import EVERYTHING, Selection
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import Answer, ApiClient, Body, Decoder, ListWatch, Lookup, Request
from tfoperator.kube.views.objects import decode_nothing, decode_partial

T = TypeVar("T")


def api_error(code: int, reason: str = "", message: str = "", *, retry_after: float | None = None) -> KubeError:
    """Return the error that a client raises for an answer of this code."""
    status = Status(code=code, reason=reason, message=message or reason or f"HTTP {code}")
    return error_from_status(status, retry_after=retry_after)


def plain(body: Body | Sequence[Any]) -> dict[str, Any]:
    """Return the body of a request as a server reads it."""
    data = body if isinstance(body, bytes | bytearray) else msgspec.json.encode(body)
    read: dict[str, Any] = msgspec.json.decode(data)
    return read


class SequentialClient(ApiClient):
    """The common part of simulated servers. Subclasses implement `make`, `list` and `watch`."""

    @property
    def parallelism(self) -> int:
        """As the option's default; chains are sent one after the other all the same."""
        return 16

    def send(self, chains: Sequence[Sequence[Request]]) -> list[list[Answer]]:
        """Make the requests of each chain up to its first failure, one chain after the other.

        Real servers may get the requests in this order, too.
        """
        return [self._send(chain) for chain in chains]

    def _send(self, chain: Sequence[Request]) -> list[Answer]:
        answers: list[Answer] = []
        for request in chain:
            try:
                answers.append(self.answer(request))
            except KubeError as error:
                return [*answers, error]
        return answers

    def answer(self, request: Request) -> Answer:
        """Make a request of a chain. Raises KubeError."""
        if isinstance(request, Lookup):
            return self.make(request, decode_partial).metadata
        return self.make(request, decode_nothing)

    def list_watch(
        self, resource: Resource, namespace: str, decode: Decoder[T], selection: Selection = EVERYTHING
    ) -> ListWatch[T]:
        """Return the lists and watches of a collection."""
        return ListWatch(self, resource, namespace, decode, selection)
