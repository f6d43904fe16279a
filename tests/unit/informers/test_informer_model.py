"""Random changes of objects, watches and the server: in the end every handler knows the truth."""

import random
import threading

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.unit.informers.support import Server, View, api_error
from tfoperator.informers import CONTROLLER_UID_INDEX, index_by_controller_uid
from tfoperator.informers.shared_informer import SharedInformer
from tfoperator.kube.protocol.errors import ConnectionRefused, TransportError
from tfoperator.kube.views.objects import Pod

NAMES = st.sampled_from(["a", "b", "c", "d"])
OWNERS = st.sampled_from(["", "u1", "u2"])
FUTURE = api_error(504, "Too large resource version", reason="Timeout")
PASSING = [api_error(429, retry_after=3), api_error(410, reason="Expired"), api_error(500), api_error(403), FUTURE]
FAILURES = st.sampled_from([ConnectionRefused("nobody listens"), TransportError("reset"), *PASSING])


class InformerMachine(RuleBasedStateMachine):
    """Random histories of a collection, with every fault that a watch can have."""

    def __init__(self) -> None:
        super().__init__()
        self.threads_before = set(threading.enumerate())
        self.clock = FakeClock()
        self.views: list[View] = []

    @initialize(watch_list=st.booleans(), seed=st.integers(0, 1000), names=st.sets(NAMES))
    def begin(self, watch_list: bool, seed: int, names: set[str]) -> None:
        self.server = Server(watch_list=watch_list)
        for name in sorted(names):
            self.server.put(name)
        options = {"indexers": {CONTROLLER_UID_INDEX: index_by_controller_uid}, "rng": random.Random(seed)}
        self.informer = SharedInformer[Pod](self.server, name="pods", clock=self.clock, **options)
        self.handler_joins()
        self.informer.start()

    @rule(name=NAMES, owner=OWNERS)
    def object_changes(self, name: str, owner: str) -> None:
        self.server.put(name, owner=owner)

    @rule(name=NAMES)
    def object_goes(self, name: str) -> None:
        self.server.remove(name)

    @rule(name=NAMES)
    def object_is_made_anew(self, name: str) -> None:
        self.server.remove(name)
        self.server.put(name)

    @rule(changes=st.lists(st.tuples(NAMES, st.booleans()), min_size=2, max_size=20))
    def much_happens_at_once(self, changes: list[tuple[str, bool]]) -> None:
        for name, there in changes:
            self.server.put(name) if there else self.server.remove(name)

    @rule()
    def history_is_compacted(self) -> None:
        self.server.api.compact()

    @rule()
    def bookmark_comes(self) -> None:
        self.server.api.send_bookmark()

    @rule(error=st.sampled_from([None, TransportError("reset"), *map(api_error, (410, 429, 500))]))
    def watches_end(self, error: Exception | None) -> None:
        self.server.api.end_watches(error)

    @rule()
    def watches_break_and_lose_events(self) -> None:
        self.server.api.end_watches(losing_events=True)

    @rule()
    def relist_is_requested(self) -> None:
        self.informer.relist()

    @rule(failure=FAILURES, times=st.integers(1, 3))
    def requests_fail(self, failure: Exception, times: int) -> None:
        self.server.failures.extend([failure] * times)

    @rule(seconds=st.sampled_from([0.5, 2.0, 10.0, 200.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @precondition(lambda self: len(self.views) < 4)
    @rule(resync_period=st.sampled_from([0.0, 5.0]))
    def handler_joins(self, resync_period: float = 0.0) -> None:
        self.views.append(View())
        self.informer.add_handler(self.views[-1], resync_period=resync_period)

    @rule()
    def all_settles(self) -> None:
        truth = self.server.state

        def settled() -> bool:
            self.clock.advance(10)
            cached = {obj.metadata.key: obj.metadata.resource_version for obj in self.informer.indexer.list()}
            return self.informer.has_synced and cached == truth and all(view.state == truth for view in self.views)

        eventually(settled, every=0.002)
        indexer = self.informer.indexer
        by_owner = {o.metadata.key for uid in ("u1", "u2") for o in indexer.by_index(CONTROLLER_UID_INDEX, uid)}
        assert by_owner == {o.metadata.key for o in indexer.list() if o.metadata.controller is not None}

    @invariant()
    def no_handler_is_told_nonsense(self) -> None:
        assert [view.wrong for view in self.views if view.wrong] == []

    def teardown(self) -> None:
        if not hasattr(self, "informer"):
            return
        try:
            self.all_settles()
            self.no_handler_is_told_nonsense()
        finally:
            assert self.informer.stop(60)
            assert self.server.api.open_watches == 0
            assert set(threading.enumerate()) <= self.threads_before


TestInformerModel = InformerMachine.TestCase
TestInformerModel.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
