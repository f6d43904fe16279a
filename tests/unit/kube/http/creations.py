"""Chains of creations, and servers that answer them."""

from collections.abc import Callable, Sequence

from tests.unit.kube.server import Exchange
from tfoperator.kube.client import Client
from tfoperator.kube.http.sending.multiplexer import Multiplexer
from tfoperator.kube.http.sending.requests import call_of
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import Creation


class Creator:
    """Has chains of creations sent by a multiplexer, however few they are."""

    def __init__(self, client: Client, parallelism: int) -> None:
        self.client = client
        self.multiplexer = Multiplexer(client._session, parallelism)

    def create_chains(self, chains: Sequence[Sequence[Creation]]) -> list[list[KubeError | None]]:
        """Send the chains; return for each object None, or the error that ends its chain."""
        results = self.multiplexer.run([[call_of(creation) for creation in chain] for chain in chains])
        return [[result if isinstance(result, KubeError) else None for result in chain] for chain in results]

    def close(self) -> None:
        self.multiplexer.close()


def chain(*names: str) -> list[Creation]:
    """A chain of pods of these names."""
    return [Creation(PODS, "ns", {"metadata": {"name": name}}) for name in names]


def created(exchange: Exchange) -> None:
    exchange.respond(201, b"{}")


def name_of(exchange: Exchange) -> str:
    return str(exchange.json["metadata"]["name"])


def warm(creator: Creator, connections: int = 4) -> None:
    """Have so many connections made, which are idle from now on."""
    creator.create_chains([chain(f"warm-{number}") for number in range(connections)])
    # The first may have been answered before the last was sent, and then they had a connection together.
    pool = creator.multiplexer._session._transport._pool
    while len(pool._idle) < connections:
        pool.keep(pool.connect(None))


def after_warming(then: Callable[[Exchange], None]) -> Callable[[Exchange], None]:
    def handler(exchange: Exchange) -> None:
        if name_of(exchange).startswith("warm"):
            created(exchange)
        else:
            then(exchange)

    return handler
