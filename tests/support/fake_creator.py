"""A creator over any client: the chains one after the other, which is one of the orders in which they may come."""

from __future__ import annotations

from collections.abc import Sequence

from tfoperator.kube.errors import KubeError
from tfoperator.kube.objects import decode_nothing
from tfoperator.kube.verbs import ApiClient, Creation


class FakeCreator:
    """A `tfoperator.kube.verbs.Creator`; `chains` are all that it was given."""

    def __init__(self, api: ApiClient) -> None:
        self.chains: list[Sequence[Creation]] = []
        self._api = api

    def create_chains(self, chains: Sequence[Sequence[Creation]]) -> list[list[KubeError | None]]:
        self.chains += chains
        return [self._create(chain) for chain in chains]

    def _create(self, chain: Sequence[Creation]) -> list[KubeError | None]:
        done: list[KubeError | None] = []
        for one in chain:
            try:
                self._api.create(one.resource, one.namespace, one.body, decode_nothing)
            except KubeError as error:
                return [*done, error]
            done.append(None)
        return done

    def close(self) -> None:
        """It has no threads."""
