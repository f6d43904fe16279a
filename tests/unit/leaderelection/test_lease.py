from datetime import UTC, datetime

import pytest

from tests.support.fake_api import FakeApi
from tfoperator.kube.protocol.resources import LEASES
from tfoperator.leaderelection import LeaseLock
from tfoperator.leaderelection.lease import LeaseRecord

NOW = datetime(2026, 1, 1, 12, 30, 15, 120, tzinfo=UTC)
RECORD = LeaseRecord("me", 15, NOW, NOW, 3)


@pytest.fixture
def lock(api: FakeApi) -> LeaseLock:
    return LeaseLock(api, namespace="kubeflow", name="tfoperator", identity="me")


def test_a_lease_is_written_as_coordination_v1_with_microseconds(api: FakeApi, lock: LeaseLock) -> None:
    lock.create(RECORD)
    [lease] = api.objects(LEASES)
    assert (str(lock), lock.identity) == ("kubeflow/tfoperator", "me")
    assert (lease["apiVersion"], lease["kind"]) == ("coordination.k8s.io/v1", "Lease")
    times = dict.fromkeys(("acquireTime", "renewTime"), "2026-01-01T12:30:15.000120Z")
    assert lease["spec"] == {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 3, **times}
    # An update keeps what others put into it.
    api.edit(LEASES, "kubeflow", "tfoperator", {"metadata": {"labels": {"a": "b"}}, "spec": {"strategy": "Oldest"}})
    lock.update(lock.get(), LeaseRecord("me", 20, NOW, NOW, 3))
    [lease] = api.objects(LEASES)
    assert lease["metadata"]["labels"] == {"a": "b"}
    assert (lease["spec"]["strategy"], lease["spec"]["leaseDurationSeconds"]) == ("Oldest", 20)


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": None, "leaseTransitions": None}])
def test_a_lease_without_a_record_is_held_by_nobody(api: FakeApi, lock: LeaseLock, spec: object) -> None:
    api.put(LEASES, {"metadata": {"namespace": "kubeflow", "name": "tfoperator"}, "spec": spec})
    assert lock.get().record == LeaseRecord()
