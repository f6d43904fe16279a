from typing import Any

from tests.support.clock import FakeClock
from tests.support.fake_api import FakeApi
from tests.unit.local.node.pods import container, manifest, view
from tfoperator.kube.protocol.resources import PODS
from tfoperator.local.node.node_api import NodeApi

SCHEDULED = {"type": "PodScheduled", "status": "True"}


class Bench:
    """A pod of this node, and the requests about it."""

    def __init__(self) -> None:
        self.server = FakeApi()
        self.server.put(PODS, manifest("p", container()))
        self._pod = view(self.server.objects(PODS)[0])
        no_recorder: Any = None
        self._api = NodeApi(self.server, no_recorder, node_name="here", clock=FakeClock())

    def report(self, *conditions: dict[str, str]) -> None:
        self._api.report(self._pod, {"phase": "Running", "conditions": list(conditions)})

    @property
    def conditions(self) -> list[dict[str, str]]:
        """The conditions by type, without nulls, which API servers do not store."""
        stored = self.server.objects(PODS)[0]["status"]["conditions"]
        kept = [{field: value for field, value in condition.items() if value is not None} for condition in stored]
        return sorted(kept, key=lambda condition: condition["type"])


def test_conditions_of_others_stay_in_a_status_that_is_reported() -> None:
    bench = Bench()
    taken = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    bench.server.edit(PODS, "ns", "p", {"status": {"conditions": [taken]}})
    bench.report(SCHEDULED)
    bench.report(SCHEDULED, {"type": "Ready", "status": "False"})
    assert bench.conditions == [taken, SCHEDULED, {"type": "Ready", "status": "False"}]


def test_a_condition_that_has_changed_keeps_nothing_of_its_former_reason() -> None:
    bench = Bench()
    bench.report({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "too few GPUs"})
    assert bench.conditions[0]["message"] == "too few GPUs"
    bench.report(SCHEDULED)
    assert bench.conditions == [SCHEDULED]
