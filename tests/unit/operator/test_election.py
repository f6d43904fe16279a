"""Two leases, one inside the other: a shard is not given back while its work goes on."""

from __future__ import annotations

import threading

from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi
from tests.support.threads import no_threads_left
from tfoperator.base.clock import StopSignal, SystemClock
from tfoperator.kube.resources import LEASES
from tfoperator.operator.election import Election
from tfoperator.operator.options import Options
from tfoperator.operator.shards import Shard

OPTIONS = Options(
    leader_elect=True,
    leader_elect_namespace="ns",
    leader_elect_lease_duration=1.5,
    leader_elect_renew_deadline=1.0,
    leader_elect_retry_period=0.1,
    shard=Shard(2, 0),
)
OWN = "tfoperator-0-of-2"


def test_a_shard_is_kept_until_its_work_has_ended_also_if_the_layout_is_lost_meanwhile() -> None:
    api, stop = FakeApi(), StopSignal()
    works, may_end = threading.Event(), threading.Event()

    def lead(_: StopSignal) -> None:
        works.set()
        may_end.wait(60)

    def holder() -> str:
        return next(str(one["spec"]["holderIdentity"]) for one in api.objects(LEASES) if one["metadata"]["name"] == OWN)

    def renewals() -> int:
        return sum(call.verb == "replace" and call.name == OWN for call in api.calls)

    election = Election(api, OPTIONS, identity="one", lead=lead, fail=lambda _: None, clock=SystemClock())
    with no_threads_left():
        thread = threading.Thread(target=election.run, args=(stop,))
        thread.start()
        assert works.wait(60)
        stop.set()
        api.edit(LEASES, "ns", "tfoperator", {"spec": {"holderIdentity": "another layout"}})
        eventually(lambda: not election.is_leader, what="the layout's lease is lost")
        before = renewals()
        eventually(lambda: renewals() > before + 3, what="the shard's lease is renewed")
        assert holder() == "one"
        may_end.set()
        thread.join(60)
    assert holder() == ""
