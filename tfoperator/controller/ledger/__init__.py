"""Records this process's own actions on jobs, and facts about jobs that the caches do not show.

`JobMemory` has results that must not be computed or reported again, `CacheLag` tracks how far the caches may be behind,
and `Claims` changes the owner of an object. When the process ends, the ledger is lost: this costs some time, but never
makes a result wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tfoperator.base.clock import Clock
from tfoperator.controller.kinds import ObjectKind
from tfoperator.controller.ledger.adoption import why_not_adopted
from tfoperator.controller.ledger.cache_lag import CacheLag, StaleCache, is_older
from tfoperator.controller.ledger.claims import Claims, is_refused
from tfoperator.controller.ledger.memory import JobMemory
from tfoperator.expectations import Expectations
from tfoperator.informers import Lister
from tfoperator.kube.protocol.verbs import ApiClient

__all__ = ["CacheLag", "Claims", "JobMemory", "Ledger", "StaleCache", "is_older", "is_refused", "why_not_adopted"]


class Ledger(NamedTuple):
    """The three parts of this process's records about jobs. Thread-safe."""

    memory: JobMemory
    cache_lag: CacheLag
    claims: Claims

    @classmethod
    def of(
        cls, client: ApiClient, caches: Mapping[ObjectKind, Lister[Any]], *, expectations: Expectations, clock: Clock
    ) -> Ledger:
        """Return an empty ledger. `caches` has a cache for each kind of object that jobs own."""
        claims = Claims(client)
        lag = CacheLag(client, claims, caches, expectations=expectations, clock=clock)
        return cls(JobMemory(), lag, claims)

    def forget(self, uid: str) -> None:
        """Drop all records about the job with this UID, because it was deleted."""
        self.memory.forget(uid)
        self.cache_lag.forget(uid)
