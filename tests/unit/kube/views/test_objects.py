import gc
import json
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.unit.kube.conftest import Serve
from tests.unit.kube.pods import running_pod
from tests.unit.kube.server import Exchange
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.protocol.verbs import decoder
from tfoperator.kube.views import objects
from tfoperator.kube.views.kept import DECIDING_CONTAINER
from tfoperator.kube.views.objects import ObjectMeta, Pod, Service, decode_partial, decode_pod, decode_service
from tfoperator.kube.watching.listing import PAGE_SIZE, list_pages


def encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def test_ten_thousand_pods_cost_at_most_2_kb_each(serve: Serve) -> None:
    bodies = [encode(running_pod(number)) for number in range(10_000)]
    size = sum(map(len, bodies)) / len(bodies)
    assert 4_000 < size < 5_000, f"real pods have 4.3 KB, these {size:.0f} bytes"
    pages = [b",".join(bodies[start : start + PAGE_SIZE]) for start in range(0, len(bodies), PAGE_SIZE)]
    del bodies

    def handler(exchange: Exchange) -> None:
        number = int(exchange.target.partition("continue=")[2] or 0)
        more = str(number + 1) if number + 1 < len(pages) else ""
        meta = encode({"resourceVersion": "9", "continue": more})
        exchange.respond(200, b'{"kind":"PodList","metadata":%s,"items":[%s]}' % (meta, pages[number]))

    server = serve(handler)
    with Client(ClusterConfig(server=server.url)) as client:
        client.list(PODS, "", decode_pod)  # what is made once: connections, decoders
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            pods = [pod for page in list_pages(client.list_watch(PODS, "", decode_pod)) for pod in page.items]
            server.requests.clear()
            gc.collect()
            held = (tracemalloc.get_traced_memory()[0] - before) / len(pods)
        finally:
            tracemalloc.stop()
    assert len({pod.metadata.uid for pod in pods}) == 10_000
    assert held <= 2_000, f"a cached pod costs {held:.0f} bytes"


def test_a_compact_pod_says_the_same_as_a_plain_one_but_for_annotations_of_others_and_requests() -> None:
    data = encode(running_pod(7))
    plain, compact = decoder(Pod)(data), decode_pod(data)
    ours = {"training.kubeflow.org/restarts": "0"}
    assert compact.metadata.annotations == ours
    metadata = msgspec.structs.replace(plain.metadata, annotations=ours)
    spec = msgspec.structs.replace(plain.spec, requests=compact.spec.requests)
    assert '"requests":{"cpu":"2"' in spec.requests
    assert compact == msgspec.structs.replace(plain, metadata=metadata, spec=spec)


def test_sharing_never_mixes_different_values_and_is_bounded() -> None:
    for number in range(0, 40_000, 7):
        pod = running_pod(0)
        pod["status"]["containerStatuses"][0]["restartCount"] = number
        assert decode_pod(encode(pod)).status.container_statuses[0].restart_count == number
    assert len(objects._shared) <= objects._SHARED_MAX


@pytest.mark.parametrize("decode", [decode_pod, decode_service, decode_partial, decoder(Pod), decoder(Service)])
def test_an_empty_object_decodes_and_what_is_none_is_an_error(decode: Any) -> None:
    assert decode(b"{}").metadata.name == ""
    assert decode(b"{}").metadata.labels == {}
    for data in (b"", b"[]", b'{"metadata": 1}', b'{"metadata": {"name": 1}}'):
        with pytest.raises(msgspec.DecodeError):
            decode(data)


def test_the_controller_is_the_owner_in_charge() -> None:
    pod = running_pod(0)
    pod["metadata"]["ownerReferences"].insert(0, {"kind": "Queue", "name": "q", "uid": "u", "apiVersion": "v1"})
    meta = decode_pod(encode(pod)).metadata
    assert meta.controller is not None
    assert meta.controller.kind == "TFJob"
    assert meta.key == "team-a/mnist-00000-worker-0"


@pytest.mark.parametrize("decode", [decode_pod, decode_service, decode_partial])
def test_an_object_costs_a_cache_little_whatever_somebody_writes_into_it(decode: Any) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "n" * 300, "uid": "u"}
    names_of_others = [f"example.com/{number:0300}" for number in range(300)]
    metadata = {
        "labels": {"training.kubeflow.org/job-name": "a"} | dict.fromkeys(names_of_others, "v"),
        "annotations": {"training.kubeflow.org/restarts": "1", "training.kubeflow.org/stopped": "x" * 100_000},
        "finalizers": names_of_others,
        "ownerReferences": [*[owner] * 300, owner | {"controller": True, "uid": "U" * 100_000}],
    }
    data = encode({"metadata": metadata, "spec": {"ports": [{"port": number} for number in range(30_000)]}})
    decode(encode({"metadata": metadata}))
    gc.collect()
    tracemalloc.start()
    try:
        held = decode(data)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 2_000
    finally:
        tracemalloc.stop()
    meta = held.metadata
    assert meta.labels == {"training.kubeflow.org/job-name": "a"}
    assert meta.annotations == {"training.kubeflow.org/restarts": "1"}
    assert meta.finalizers == (names_of_others[0],)
    assert meta.controller is not None, "somebody's all the same"
    assert not meta.is_controlled_by("")


def test_of_a_pod_with_many_containers_the_one_that_decides_is_kept_and_a_small_pod_is_kept_whole() -> None:
    def status(name: str, message: str = "") -> dict[str, Any]:
        ended = {"exitCode": 3, "reason": "Error", "message": message}
        return {"name": name, "ready": True, "restartCount": 1, "state": {"terminated": ended}}

    def pod(count: int, message: str) -> Pod:
        statuses = [*(status(f"sidecar-{number}", message) for number in range(count)), status("tensorflow", message)]
        gates = [{"type": f"example.com/gate-{number}", "status": "True"} for number in range(count)]
        conditions = [*gates, {"type": "Ready", "status": "False"}, {"type": "DisruptionTarget", "status": "True"}]
        both = {"containerStatuses": statuses, "initContainerStatuses": statuses, "conditions": conditions}
        return decode_pod(encode({"metadata": {"name": "p"}, "status": {"phase": "Running", **both}}))

    small = pod(10, "m" * 1000)
    assert [len(small.status.container_statuses), len(small.status.conditions)] == [11, 12]
    assert small.status.container_statuses[0].state.terminated.message == "m" * 1000
    wide = decode_pod(
        encode(
            {
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "tensorflow", "env": [{"name": "TF_CONFIG", "value": "x" * 60_000}]}]},
                "status": {"containerStatuses": [status("tensorflow", "m" * 4096)]},
            }
        )
    )
    assert len(wide.status.container_statuses[0].state.terminated.message) == 4096, (
        "as a program of a wide job writes it"
    )
    large = pod(1_000, "m" * 4096)
    assert (large.status.phase, len(large.status.container_statuses)) == ("Running", 16)
    [deciding] = [
        container_status
        for container_status in large.status.container_statuses
        if container_status.name == DECIDING_CONTAINER
    ]
    assert (deciding.state.terminated.exit_code, deciding.restart_count) == (3, 1)
    assert len(deciding.state.terminated.message) == 256
    assert [condition.type for condition in large.status.conditions][:2] == ["Ready", "DisruptionTarget"]


@pytest.mark.parametrize("grace", [10**12, 10**30, -(10**30)])
def test_a_grace_period_that_no_calendar_has_room_for_breaks_nothing(grace: int) -> None:
    meta = ObjectMeta(deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC), deletion_grace_period_seconds=grace)
    requested = meta.deletion_requested
    assert requested.tzinfo is UTC


@pytest.mark.parametrize(("grace", "requested"), [(30, 30), (2, 58), (1, None), (0, None), (-1, None), (None, None)])
def test_the_time_of_a_deletion_is_certain_only_where_no_later_request_can_have_moved_it(
    grace: int | None, requested: int | None
) -> None:
    end = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    meta = ObjectMeta(deletion_timestamp=end, deletion_grace_period_seconds=grace)
    assert meta.certain_deletion == (requested and end.replace(minute=0, second=requested))
    assert ObjectMeta().certain_deletion is None
