"""The cost of an event and of a sync; pytest-benchmark's table shows it in microseconds.

Not part of the tests: these benchmarks never fail for being slow, because a number without a machine means nothing.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from hack.bench.loads import Load, job_manifest
from hack.bench.measure import read_usage
from hack.bench.micro.samples import NOW, pod_json, watch_line
from tfoperator.api.defaults import default
from tfoperator.api.v1.types import TFJOBS, TFJob, decode_tfjob
from tfoperator.base.clock import SystemClock
from tfoperator.controller.plan.decide import plan
from tfoperator.controller.plan.values.actions import Create, Plan
from tfoperator.controller.plan.values.observed import Observed
from tfoperator.informers import CONTROLLER_UID_INDEX, ORPHANS_INDEX, index_by_controller_uid, index_orphans
from tfoperator.informers.store import Indexer
from tfoperator.kube.http.sending.requests import encode, status_write
from tfoperator.kube.http.watch import HttpWatch
from tfoperator.kube.views.objects import Pod, decode_pod, decode_service
from tfoperator.operator import Options
from tfoperator.operator.options.planning import plan_options
from tfoperator.workqueue import RateLimitingQueue

Benchmark = Any  # pytest_benchmark is untyped

_EVENTS = 1000
_CACHED_PODS = 5000
_OPTIONS = plan_options(Options())


class _Lines:
    """A stream that has everything at hand, in pieces as large as a socket's."""

    def __init__(self, data: bytes) -> None:
        self._pieces = iter([data[at : at + 65536] for at in range(0, len(data), 65536)])

    def read(self, timeout: float | None, gather: int = 0) -> bytes:  # noqa: ARG002 - ByteStream's signature
        """The next piece."""
        return next(self._pieces, b"")

    def close(self) -> None:
        """Nothing to close."""


def _watch(data: bytes) -> Iterator[Any]:
    stream: Any = _Lines(data)
    return iter(HttpWatch(stream, decode_pod, what="bench", read_deadline=None, total_deadline=60, clock=SystemClock()))


def test_decode_1000_watch_events_of_pods(benchmark: Benchmark) -> None:
    data = b"".join(watch_line(number) for number in range(_EVENTS))
    assert benchmark(lambda: sum(1 for _ in _watch(data))) == _EVENTS


def test_update_a_store_of_5000_pods_with_its_indexes(benchmark: Benchmark) -> None:
    indexers = {CONTROLLER_UID_INDEX: index_by_controller_uid, ORPHANS_INDEX: index_orphans}
    store: Indexer[Pod] = Indexer(indexers)
    pods = [decode_pod(pod_json(number)) for number in range(_CACHED_PODS)]
    for pod in pods:
        store.add(pod)
    changed = decode_pod(pod_json(_CACHED_PODS // 2))
    benchmark(store.add, changed)


def test_queue_add_get_done(benchmark: Benchmark) -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue(base=0.005, cap=1000, name="bench")

    def cycle() -> None:
        queue.add("ns/job")
        queue.done(queue.get())

    benchmark(cycle)
    queue.shut_down(0)


def _job(ps: int, workers: int) -> TFJob:
    manifest = job_manifest(Load("bench", jobs=1, ps=ps, workers=workers), "bench-0000")
    manifest["metadata"] |= {"uid": "job-uid", "generation": 1, "creationTimestamp": "2026-07-01T00:00:00Z"}
    return default(decode_tfjob(msgspec.json.encode(manifest)))


def _created_pods(made: Plan) -> list[Create]:
    return _created(made, "pods")


def _created(made: Plan, kind: str) -> list[Create]:
    return [action for action in made.actions if isinstance(action, Create) and action.kind == kind]


def _stored(creation: Create, **members: Any) -> bytes:
    """Return the object that an API server would store for this creation."""
    body = msgspec.json.decode(encode(creation.body), type=dict[str, Any])
    body["metadata"] |= {"uid": f"uid-{creation.name}", "namespace": "bench"}
    return msgspec.json.encode(body | members)


def _running(job: TFJob) -> Observed:
    """Return the job in the state in which every object of its first plan exists and runs, and its status shows it."""
    made = plan(Observed(job=job), NOW, _OPTIONS)
    running = {
        "phase": "Running",
        "startTime": "2026-07-01T00:00:00Z",
        "containerStatuses": [{"name": "tensorflow", "ready": True, "state": {"running": {}}}],
    }
    pods = tuple(decode_pod(_stored(creation, status=running)) for creation in _created_pods(made))
    services = tuple(decode_service(_stored(creation)) for creation in _created(made, "services"))
    observed = Observed(job=job, pods=pods, services=services)
    status = plan(observed, NOW, _OPTIONS).status
    return msgspec.structs.replace(observed, job=msgspec.structs.replace(job, status=status))


@pytest.mark.parametrize(("ps", "workers"), [(1, 2), (0, 1000)], ids=["3 replicas", "1000 replicas"])
def test_plan_of_a_new_job(benchmark: Benchmark, ps: int, workers: int) -> None:
    observed = Observed(job=_job(ps, workers))
    made = benchmark(plan, observed, NOW, _OPTIONS)
    assert len(_created_pods(made)) == ps + workers


@pytest.mark.parametrize(("ps", "workers"), [(1, 2), (0, 1000)], ids=["3 replicas", "1000 replicas"])
def test_plan_of_a_running_job(benchmark: Benchmark, ps: int, workers: int) -> None:
    observed = _running(_job(ps, workers))
    made = benchmark(plan, observed, NOW, _OPTIONS)
    assert not list(made.actions)


def test_bodies_with_tf_config_for_1000_replicas(benchmark: Benchmark) -> None:
    observed = Observed(job=_job(0, 1000))

    def encoded() -> int:
        return sum(len(encode(creation.body)) for creation in _created_pods(plan(observed, NOW, _OPTIONS)))

    assert benchmark(encoded) > 1000 * 1000


def test_write_of_a_status(benchmark: Benchmark) -> None:
    job = _running(_job(1, 2)).job
    assert benchmark(lambda: len(encode(status_write(TFJOBS, job.metadata, job.status).body))) > 500


def test_bytes_per_cached_pod(benchmark: Benchmark) -> None:
    """Measure decoding 5000 pods; `bytes_per_pod` in the extra information is the memory that the objects hold."""
    texts = [pod_json(number) for number in range(_CACHED_PODS)]
    kept: list[list[Pod]] = []

    def hold() -> None:
        kept.append([decode_pod(text) for text in texts])

    gc.collect()
    before = read_usage(os.getpid()).rss
    benchmark.pedantic(hold, rounds=4, iterations=1)
    benchmark.extra_info["bytes_per_pod"] = round((read_usage(os.getpid()).rss - before) / (4 * _CACHED_PODS))
    print(f"\nbytes per cached pod: {benchmark.extra_info['bytes_per_pod']}")
