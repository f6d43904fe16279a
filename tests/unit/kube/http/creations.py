"""Chains of creations, and servers that answer them."""

from __future__ import annotations

from collections.abc import Callable

from tests.unit.kube.server import Exchange
from tfoperator.kube.client import HttpCreator
from tfoperator.kube.resources import PODS
from tfoperator.kube.verbs import Creation


def chain(*names: str) -> list[Creation]:
    """A chain of pods of these names."""
    return [Creation(PODS, "ns", {"metadata": {"name": name}}) for name in names]


def created(exchange: Exchange) -> None:
    exchange.respond(201, b"{}")


def name_of(exchange: Exchange) -> str:
    return str(exchange.json["metadata"]["name"])


def warm(creator: HttpCreator, connections: int = 4) -> None:
    """Have so many connections made, which are idle from now on."""
    creator.create_chains([chain(f"warm-{number}") for number in range(connections)])
    # The first may have been answered before the last was sent, and then they had a connection together.
    pool = creator._multiplexer._session._transport._pool
    while len(pool._idle) < connections:
        pool.keep(pool.connect(None))


def after_warming(then: Callable[[Exchange], None]) -> Callable[[Exchange], None]:
    def handler(exchange: Exchange) -> None:
        if name_of(exchange).startswith("warm"):
            created(exchange)
        else:
            then(exchange)

    return handler
