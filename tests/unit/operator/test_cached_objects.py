"""The parts of an object that the caches of a real operator keep, however large its author makes it."""

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.support.fake_api import FakeApi
from tests.support.largest import Json, largest
from tfoperator.api.kueue.queues import POD_SETS_ANNOTATION
from tfoperator.api.replicas.names import OPERATOR_NAME, job_labels
from tfoperator.kube.protocol.options import EVERYTHING, Selection
from tfoperator.kube.protocol.resources import Resource
from tfoperator.kube.protocol.verbs import ListWatch
from tfoperator.operator import Operator, Options

Decode = Callable[[bytes], Any]

MOST = 32 << 10
"""Bytes of memory that the cache may take for one object."""

LARGE = 240_000
"""Bytes in each member that a view reads: less than the 256 KiB that API servers allow for annotations."""


class Watches(FakeApi):
    """Notes what is watched, and how it is decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.decoders: dict[str, Decode] = {}

    def list_watch(
        self, resource: Resource, namespace: str, decode: Decode, selection: Selection = EVERYTHING
    ) -> ListWatch[Any]:
        self.decoders[f"{resource.plural}.{resource.group or 'core'}"] = decode
        return super().list_watch(resource, namespace, decode, selection)


def watched() -> dict[str, Decode]:
    """The decoders of all informers that operators have, whatever their options."""
    api = Watches()
    for gang in ("volcano", "scheduler-plugins", "kubernetes"):
        Operator(api, Options(gang_scheduler_name=gang, kueue=True))
    return api.decoders


DECODERS = watched()

OF_OTHERS: dict[str, tuple[str, ...]] = {"tfjobs.kubeflow.org": ("status", "decode_error")}
"""Members that no author of an object can write: the status of a TFJob is the operator's own."""

OWNER = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "mnist", "uid": "job-uid", "controller": True}


def object_of(kind: str, size: int, owner: Json | None) -> bytes:
    view = type(DECODERS[kind](b"{}"))
    made = largest(view, size, without=OF_OTHERS.get(kind, ()))
    metadata = made["metadata"]
    metadata["labels"] |= job_labels("mnist")
    metadata["annotations"] |= {POD_SETS_ANNOTATION: "0123", "training.kubeflow.org/stopped": "x" * size}
    if owner is not None:
        metadata["ownerReferences"].append(owner)
    if kind == "tfjobs.kubeflow.org":
        template = {"spec": {"containers": [{"name": "tensorflow", "image": "x" * size}]}}
        made["spec"]["tfReplicaSpecs"] = {"Worker": {"replicas": 1, "template": template}}
    if kind == "pods.core":
        asks = {"requests": {f"a-name-of-a-resource.example.com/{number}": "1" for number in range(size // 60)}}
        made["spec"]["containers"] = [{"name": "tensorflow", "resources": asks}] * 2
    return json.dumps(made).encode()


def held(decode: Decode, data: bytes) -> tuple[int, Any]:
    """The bytes that a decoded object takes, and the object."""
    decode(data)  # what is made once
    gc.collect()
    tracemalloc.start()
    try:
        kept = decode(data)
        gc.collect()
        return tracemalloc.get_traced_memory()[0], kept
    finally:
        tracemalloc.stop()


def test_these_are_all_kinds_that_an_operator_watches() -> None:
    assert sorted(DECODERS) == [
        "deployments.apps",
        "podgroups.scheduling.k8s.io",
        "podgroups.scheduling.volcano.sh",
        "podgroups.scheduling.x-k8s.io",
        "pods.core",
        "priorityclasses.scheduling.k8s.io",
        "resourceflavors.kueue.x-k8s.io",
        "services.core",
        "tfjobs.kubeflow.org",
        "workloads.kueue.x-k8s.io",
    ]


@pytest.mark.parametrize("owner", [None, OWNER, OWNER | {"apiVersion": "batch/v1", "kind": "Job"}])
@pytest.mark.parametrize("kind", sorted(DECODERS))
def test_no_object_takes_more_of_a_cache_the_larger_it_is(kind: str, owner: Json | None) -> None:
    data = object_of(kind, LARGE, owner)
    assert len(data) > LARGE
    bytes_held, kept = held(DECODERS[kind], data)
    assert bytes_held < MOST, f"{kind}: {bytes_held} bytes of {len(data)} are kept"
    meta = kept.metadata
    assert (meta.name, meta.namespace, meta.uid, meta.resource_version) == ("n" * 60, "ns", "u" * 36, "1")
    if owner is not None:
        assert meta.is_controlled_by("job-uid"), "the index by owner needs it"
    assert meta.labels.get("training.kubeflow.org/operator-name", OPERATOR_NAME) == OPERATOR_NAME


@pytest.mark.parametrize("kind", sorted(DECODERS))
def test_a_bound_is_a_bound_of_the_operator_and_no_property_of_the_object(kind: str) -> None:
    small, _ = held(DECODERS[kind], object_of(kind, LARGE, OWNER))
    large, _ = held(DECODERS[kind], object_of(kind, LARGE * 2, OWNER))
    assert large < small + 4_000, f"{kind}: {small} bytes, and {large} of an object twice as large"


@pytest.mark.parametrize("kind", sorted(DECODERS))
@pytest.mark.parametrize("data", [b"", b"[]", b'{"metadata": 1}', b'{"metadata": {"name": 1}}'])
def test_what_is_no_object_is_an_error_that_the_informers_know(kind: str, data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        DECODERS[kind](data)
