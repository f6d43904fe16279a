"""A running job with policies in `spec`, as early releases of v1 and the CRD of Arena have them, is taken over."""

from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.cluster import tfjob
from tests.support.controller_harness import Harness, namespaced
from tfoperator.api.conversion import move_policies, without_server_fields
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import PODS


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "dropped by the server"])
def test_its_pods_stay_when_its_policies_are_moved_and_the_policies_hold_at_its_end(is_stored: bool) -> None:
    early = namespaced(tfjob("job", Chief=1, Worker=2))
    early["spec"] |= {"cleanPodPolicy": "All", "backoffLimit": 0}
    with Harness(clock=FakeClock()) as harness:
        exported = harness.api.put(TFJOBS, early)
        if not is_stored:
            harness.api.edit(TFJOBS, "ns", "job", {"spec": {"cleanPodPolicy": None, "backoffLimit": None}})
        harness.sync()
        harness.run_all()
        before = uids(harness)
        assert len(before) == 3
        harness.forget_calls()
        moved = move_policies(without_server_fields(exported).obj).obj["spec"]
        assert moved["runPolicy"] == {"cleanPodPolicy": "All", "backoffLimit": 0}
        harness.api.edit(TFJOBS, "ns", "job", {"spec": {"cleanPodPolicy": None, "backoffLimit": None, **moved}})
        harness.sync(times=2)
        assert uids(harness) == before
        assert not {("create", "pods"), ("delete", "pods")} & set(harness.calls())
        harness.play_kubelet("job-chief-0", "Succeeded", exit_code=0)
        harness.sync(times=2)
        assert harness.condition("Succeeded")["status"] == "True"
        assert uids(harness) == {}, "the policy that was moved: All"


def uids(harness: Harness) -> dict[str, Any]:
    """The UIDs of all pods by name."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in harness.api.objects(PODS)}
