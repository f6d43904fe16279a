import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.nested import nested
from tests.unit.api.samples import FULL_SPEC, PEER_STATUS, job_of, tfjob
from tfoperator.api.fields.field import declared
from tfoperator.api.v1 import types
from tfoperator.api.v1.parts.checkpoint import Checkpoint
from tfoperator.api.v1.parts.progress import ProgressReporting
from tfoperator.api.v1.parts.run_policy import RunPolicy, SchedulingPolicy
from tfoperator.api.v1.parts.tensorboard import TensorBoard
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import ReplicaSpec, TFJobSpec, decode_tfjob

SPEC = (TFJobSpec, RunPolicy, SchedulingPolicy, ReplicaSpec, Checkpoint, TensorBoard, ProgressReporting)


def test_every_field_of_a_spec_is_read_somewhere() -> None:
    package = Path(types.__file__).parents[2]
    stating = {package / "api/v1", package / "api/schema", package / "api/validation"}
    files = [path for path in package.rglob("*.py") if not stating & set(path.parents)]
    code = "\n".join(path.read_text() for path in files)
    names = {f"{struct.__name__}.{field.attribute}" for struct in SPEC for field in declared(struct).values()}
    unread = [name for name in sorted(names) if not re.search(rf"\.{name.partition('.')[2]}\b", code)]
    assert not unread, f"no code reads {', '.join(unread)}: use it in tfoperator/controller, or take it out of api/v1"


def test_every_field_of_the_peer_is_read() -> None:
    job = job_of(tfjob({}) | {"spec": FULL_SPEC, "status": PEER_STATUS})
    assert job.decode_error == ""
    assert json.loads(msgspec.json.encode(job.spec)) == FULL_SPEC
    assert job.status.replica_statuses["Worker"].active == 3
    assert job.status.start_time.isoformat() == "2026-01-01T00:00:00+00:00"


def test_a_job_does_not_keep_the_text_that_it_was_read_from() -> None:
    manifest = tfjob({}) | {"spec": {**FULL_SPEC, "checkpoint": {"volume": {"emptyDir": {}}}}}
    data = json.dumps(manifest).encode()
    references = sys.getrefcount(data)
    job = decode_tfjob(data)
    assert job.decode_error == ""
    assert sys.getrefcount(data) == references
    assert json.loads(bytes(job.spec.checkpoint.volume)) == {"emptyDir": {}}
    for key, replica in job.spec.tf_replica_specs.items():
        assert json.loads(bytes(replica.template)) == FULL_SPEC["tfReplicaSpecs"][key]["template"]


@pytest.mark.parametrize("path", [
    "metadata.labels", "metadata.annotations", "metadata.ownerReferences", "metadata.finalizers",
    "metadata.creationTimestamp", "metadata.generation", "spec", "spec.tfReplicaSpecs", "spec.runPolicy",
    "spec.successPolicy", "status", "status.conditions", "status.replicaStatuses", "status.startTime",
])  # fmt: skip
def test_a_null_counts_as_absent(path: str) -> None:
    manifest = tfjob({"Worker": {}}) | {"status": {"phase": "Running"}}
    *parents, last = path.split(".")
    target: Any = manifest
    for step in parents:
        target = target[step]
    target.pop(last, None)
    without = job_of(manifest)
    target[last] = None
    assert job_of(manifest).decode_error == ""
    assert json.loads(msgspec.json.encode(job_of(manifest))) == json.loads(msgspec.json.encode(without))


def test_nulls_are_dropped_but_a_null_replica_spec_stays_and_a_status_that_cannot_be_read_is_empty() -> None:
    manifest = tfjob({"Worker": None}) | {"status": {"conditions": [None], "replicaStatuses": {"PS": None}}}
    job = job_of(manifest)
    assert (job.decode_error, job.spec.tf_replica_specs) == ("", {"Worker": None})
    assert job.status == TFJobStatus()
    job = job_of(tfjob({"Worker": {}}) | {"status": {"conditions": [{"type": "Created"}]}})
    assert job.decode_error == "status.conditions[0].status: is required"
    assert job.status == TFJobStatus()


def test_a_spec_that_cannot_be_read_leaves_its_reasons_and_the_status() -> None:
    manifest = tfjob({"Worker": {"replicas": "2"}}, successPolicy=1) | {"status": PEER_STATUS}
    job = job_of(manifest)
    assert job.decode_error.splitlines() == [
        'spec.tfReplicaSpecs[Worker].replicas: must be a whole number, but is the string "2"',
        "spec.successPolicy: must be a string, but is the number 1",
    ]
    assert (job.metadata.name, job.spec) == ("mnist", TFJobSpec())
    assert job.status.conditions[0].type == "Created"


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"null", b'{"metadata": []}', b'{"metadata": {"name": 1}}'),
        b'{"metadata": {"name": "\xd3"}}',
        b'{"\xd3": 1, "metadata": {"generation": {}}}',
        b'{"spec": {"checkpoint": {"volume": {"\xd3": {}}, "mountPath": "/checkpoint"}}}',
        b'{"spec": {"tfReplicaSpecs": {"Worker": {"template": ' + nested() + b"}}}}",
    ],
    ids=lambda data: repr(data[:30]),
)
def test_only_what_has_no_readable_metadata_or_no_decoder_can_read_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_tfjob(data)


def shown(status: dict[str, Any], name: str = "mnist", *, html: bool = True) -> str:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}}
    obj = {"metadata": {"name": name, "namespace": "ml"}, "spec": spec, "status": status}
    job = decode_tfjob(json.dumps(obj).encode())
    return job._repr_html_() if html else repr(job)


def test_a_job_is_one_line_in_python_and_shown_with_its_replicas_in_a_notebook_where_a_message_is_no_markup() -> None:
    assert shown({"phase": "Running", "ready": "1/2"}, html=False) == "<TFJob ml/mnist: Running, 1/2 ready>"
    assert shown({}, html=False) == "<TFJob ml/mnist: Pending>"
    running = {"type": "Running", "status": "True", "reason": "TFJobRunning", "message": "it runs"}
    status = {"phase": "Running", "ready": "1/2", "restarts": 1, "replicaStatuses": {"Worker": {"active": 2}}}
    text = shown({**status, "conditions": [running]})
    assert "<b>TFJob ml/mnist</b> Running, 1/2 ready, 1 restart" in text
    for restarts, disruptions, described in (
        (2, 0, "2 restarts"),
        (1, 1, "1 restart after a disruption"),
        (2, 2, "2 restarts after disruptions"),
        (3, 1, "3 restarts, 1 of them after a disruption"),
        (9, 2, "9 restarts, 2 of them after disruptions"),
    ):
        line = shown({"phase": "Running", "restarts": restarts, "disruptions": disruptions}, html=False)
        assert line == f"<TFJob ml/mnist: Running, {described}>"
    for word in ("Worker", "it runs", "TFJobRunning"):
        assert word in text
    fresh = shown({})
    assert "Worker" in fresh
    assert "condition" not in fresh
    condition = {"type": "Failed", "status": "True", "message": "<img src=x onerror=alert(1)>\x1b[31m"}
    text = shown({"conditions": [condition]}, name="<b>")
    assert "<img" not in text
    assert "\x1b" not in text
    assert "ml/<b>" not in text
