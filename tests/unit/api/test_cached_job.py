from typing import Any

import msgspec
import pytest

from tfoperator.api.cached_job import MAX_SPEC, MAX_TEMPLATES, decode_job_for_cache, problems_of, without_templates
from tfoperator.api.defaults import default
from tfoperator.api.fields.problems import errors
from tfoperator.api.replicas.templates import NotKept, hash_of, is_hash, own_host_names, template_dict
from tfoperator.api.v1.types import TFJob, decode_tfjob
from tfoperator.api.validation.job import validate

ENDED: dict[str, Any] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
SUSPENDED: dict[str, Any] = {"runPolicy": {"suspend": True}}
BOARD: dict[str, Any] = {"tensorBoard": {"logDir": "/logs"}}


def job(
    size: int = 0, *, image: str = "i", status: Any = None, metadata: Any = None, copies: int = 1, **spec: Any
) -> bytes:
    """A job with templates of about `size` bytes together."""
    env = [{"name": "V", "value": "x" * (size // copies)}]
    template = {"spec": {"containers": [{"name": "tensorflow", "image": image, "env": env}]}}
    specs: dict[str, Any] = {key: {"template": template} for key in ("Worker", "Evaluator", "Chief")[:copies]}
    manifest = {
        "metadata": {"name": "j", "namespace": "ns", **(metadata or {})},
        "spec": {"tfReplicaSpecs": {"PS": {"replicas": 2}, **specs}, **spec},
        "status": status or {},
    }
    return msgspec.json.encode(manifest)


def template_of(cached: TFJob, kind: str = "Worker") -> msgspec.Raw:
    replica = cached.spec.tf_replica_specs[kind]
    return replica.template


@pytest.mark.parametrize(
    ("data", "keeps"),
    [
        (job(MAX_TEMPLATES // 2), True),
        (job(status=ENDED, **BOARD), True),
        (job(status={"conditions": [{"type": "Succeeded", "status": "False"}]}), True),
        (job(runPolicy={"suspend": False}), True),
        (job(MAX_TEMPLATES), False),
        (job(MAX_TEMPLATES, copies=3), False),
        (job(status=ENDED), False),
        (job(**SUSPENDED), False),
        (job(MAX_TEMPLATES, status=ENDED, **BOARD), False),
    ],
)
def test_templates_are_kept_where_they_are_small_and_may_be_needed(data: bytes, keeps: bool) -> None:
    cached, whole = decode_job_for_cache(data), decode_tfjob(data)
    assert cached.spec == (whole.spec if keeps else without_templates(whole.spec))
    assert is_hash(template_of(cached)) is not keeps
    assert (cached.status, cached.decode_error) == (whole.status, "")
    assert bytes(template_of(cached, "PS")) == b"", "a parameter server without a template stays one"
    assert problems_of(default(cached)) == problems_of(default(whole)) == ()


@pytest.mark.parametrize("read", [template_dict, own_host_names])
def test_a_hash_is_no_template_and_equal_for_equal_text(read: Any) -> None:
    template = msgspec.Raw(b'{"spec":{}}')
    kept = hash_of(template)
    assert kept == hash_of(kept) == hash_of(template.copy()) != hash_of(msgspec.Raw(b'{"spec":{ }}'))
    with pytest.raises(NotKept):
        read(kept)


@pytest.mark.parametrize("how", [SUSPENDED, {"size": MAX_TEMPLATES}, {"size": MAX_TEMPLATES, "status": ENDED, **BOARD}])
def test_what_is_wrong_with_a_template_is_known_without_it(how: dict[str, Any]) -> None:
    data = job(image="", **how)
    [problem] = map(str, errors(validate(default(decode_tfjob(data)))))
    assert "image: is required" in problem
    cached = decode_job_for_cache(data)
    assert is_hash(template_of(cached))
    assert problems_of(default(cached)) == (problem,)


def test_problems_are_bounded_however_many_a_template_has() -> None:
    many = [{"name": "n" * 70} for _ in range(2000)]
    for template in ({"spec": {"containers": many}}, {"spec": {"containers": many, "initContainers": many}}):
        data = job(tfReplicaSpecs={"Worker": {"template": template}})
        for problems in (problems_of(decode_tfjob(data)), problems_of(decode_job_for_cache(data))):
            assert len(problems) == 20
            assert max(map(len, problems)) <= 1000


@pytest.mark.parametrize("status", [{}, ENDED])
def test_a_spec_that_is_large_besides_its_templates_is_refused_and_one_with_large_templates_is_not(status: Any) -> None:
    board = {"logDir": "/logs", "env": [{"name": "V", "value": "x" * MAX_SPEC}]}
    cached = decode_job_for_cache(job(status=status, tensorBoard=board))
    assert cached.spec.tensor_board is None
    assert cached.status == decode_tfjob(job(status=status)).status
    assert [str(error) for error in errors(validate(cached))] == [
        "spec: must have at most 65536 bytes without its pod templates"
    ]
    board["env"] = [{"name": "V", "value": "x" * (MAX_SPEC // 2)}]
    for size in (MAX_TEMPLATES - 1000, 2 * MAX_SPEC):
        assert not decode_job_for_cache(job(size, status=status, tensorBoard=board)).decode_error


def test_of_metadata_what_is_read_is_kept() -> None:
    annotations = {f"a-{number}": "x" for number in range(70)} | {"long": "x" * 1025}
    labels = {"kueue.x-k8s.io/queue-name": "q", "mine": "x"}
    metadata = {"labels": labels, "annotations": {"first": "y" * 1024, **annotations}, "finalizers": ["a", "b"]}
    kept = decode_job_for_cache(job(metadata=metadata)).metadata
    assert kept.labels == {"kueue.x-k8s.io/queue-name": "q"}
    assert list(kept.annotations) == ["first", *(f"a-{number}" for number in range(63))]
    assert kept.finalizers == ("a",)
