"""Who leads: one of the operator's replicas, or one per shard while no other layout of shards is served.

With shards there are two leases, taken one after the other. The shard's own keeps a second process of the same shard
out. The layout's, under the name that an operator without shards uses, is held by all shards of the layout together: so
another layout, or an operator without shards, can get it only when every one of them has ended, and none of them starts
while it is another's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from tfoperator.base.clock import Clock, StopSignal
from tfoperator.kube.verbs import ApiClient
from tfoperator.leaderelection import LeaderElector, LeaseLock
from tfoperator.operator.options import Options
from tfoperator.operator.shards import Shard

logger = logging.getLogger(__name__)


class Election:
    """`run` in one thread, once; `is_leader` in any."""

    def __init__(
        self,
        client: ApiClient,
        options: Options,
        *,
        identity: str,
        lead: Callable[[StopSignal], None],
        fail: Callable[[str], None],
        clock: Clock,
    ) -> None:
        """`lead` works until its signal is set, then ends its work. `fail` is told of a lease that was lost."""
        self._client = client
        self._options = options
        self._lead = lead
        self._fail = fail
        self._clock = clock
        self._work_begun = False  # set once, by the thread that works
        self._work_ended = StopSignal()
        name, shard = options.leader_elect_id, options.shard
        self._layout: LeaderElector | None = None
        if shard is None:
            self._elector = self._make(name, identity, lead)
        else:
            self._elector = self._make(shard.lease_name(name), identity, self._join)
            self._layout = self._make_layout(name, shard)

    @property
    def is_leader(self) -> bool:
        """Whether this replica may work now."""
        return self._elector.is_leader and (self._layout is None or self._layout.is_leader)

    def run(self, stop: StopSignal) -> None:
        """Wait for the leases, lead, and return when stopped or when a lease is lost, which `fail` is told then."""
        self._elector.run(stop)
        if not stop.is_set():
            self._fail("the lease was lost: another replica may lead by now")

    def _join(self, stop: StopSignal) -> None:
        """Lead as soon as no other layout is served. The shard is ours meanwhile.

        In this order: whoever holds the layout's lease has a shard of it, or has just lost it.
        """
        assert self._layout is not None
        self._layout.run(stop)
        if not stop.is_set():
            self._fail("the lease of the layout of shards was lost: another layout may be served by now")
        if self._work_begun:
            # Nobody else gets our shard before our work has ended, also if the layout was lost while it ended.
            self._work_ended.wait(self._clock, None)

    def _work(self, stop: StopSignal) -> None:
        self._work_begun = True
        try:
            self._lead(stop)
        finally:
            self._work_ended.set()

    def _make_layout(self, name: str, shard: Shard) -> LeaderElector:
        return self._make(name, shard.layout_identity, self._work, shared=True)

    def _make(
        self, name: str, identity: str, lead: Callable[[StopSignal], None], *, shared: bool = False
    ) -> LeaderElector:
        options = self._options
        namespace = options.leader_elect_namespace or os.environ.get("POD_NAMESPACE", "") or "default"
        return LeaderElector(
            LeaseLock(self._client, namespace=namespace, name=name, identity=identity),
            on_started_leading=lead,
            on_stopped_leading=lambda: None,
            on_new_leader=lambda leader: logger.info("the leader is %s", leader),
            lease_duration=options.leader_elect_lease_duration,
            renew_deadline=options.leader_elect_renew_deadline,
            retry_period=options.leader_elect_retry_period,
            shared=shared,
            clock=self._clock,
        )
