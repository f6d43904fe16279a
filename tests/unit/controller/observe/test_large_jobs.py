"""Jobs of whose templates the cache has hashes."""

from typing import Any

from tests.support.controller_harness import Harness
from tests.support.manifests import tfjob
from tfoperator.api.cached_job import MAX_TEMPLATES
from tfoperator.api.replicas.process_variables import PROCESS_VARIABLES
from tfoperator.api.replicas.templates import is_hash
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.resources import PODS


def is_trimmed(harness: Harness) -> bool:
    [cached] = harness.informers.jobs.lister.list()
    return all(spec is not None and is_hash(spec.template) for spec in cached.spec.tf_replica_specs.values())


def reads(harness: Harness) -> int:
    return harness.api.count("get", "tfjobs")


def large_env() -> list[dict[str, str]]:
    return [{"name": "V", "value": "x" * MAX_TEMPLATES}]


def submit_large(harness: Harness) -> None:
    job = tfjob("job", Worker=2)
    [container] = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    container["env"] = large_env()
    job["metadata"]["namespace"] = "ns"
    harness.api.put(TFJOBS, job)


def edit_template(harness: Harness, **container: Any) -> None:
    whole = {"name": "tensorflow", "image": "example.invalid/train:1", "command": ["train"], "env": large_env()}
    worker = {"template": {"spec": {"containers": [whole | container]}}}
    harness.api.edit(TFJOBS, "ns", "job", {"spec": {"tfReplicaSpecs": {"Worker": worker}}})


def test_pods_are_made_from_the_whole_template_which_is_read_then_and_at_no_other_time(harness: Harness) -> None:
    submit_large(harness)
    harness.sync(times=2)
    assert is_trimmed(harness)
    for pod in harness.api.objects(PODS):
        env = pod["spec"]["containers"][0]["env"]
        assert env[0] == large_env()[0]
        assert {variable["name"] for variable in env} == {"V", "TF_CONFIG", *PROCESS_VARIABLES}
    assert reads(harness) == 1
    harness.run_all()
    harness.sync(times=2)
    assert harness.condition("Running")["status"] == "True"
    assert reads(harness) == 1
    harness.play_kubelet("job-worker-0", "Succeeded")
    harness.sync(times=2)
    assert harness.condition("Succeeded")["status"] == "True"
    assert reads(harness) == 1


def test_no_pod_is_made_from_another_template_than_the_cache_shows(harness: Harness) -> None:
    submit_large(harness)
    harness.catch_up()
    harness.api.mute("tfjobs")
    edit_template(harness, image="example.invalid/train:2")
    harness.controller._process("ns/job")
    assert harness.api.names(PODS) == []
    assert harness.queue.num_requeues("ns/job") > 0
    harness.api.remove(TFJOBS, "ns", "job")
    submit_large(harness)  # another job of the name and the same spec: the deletion was not seen
    harness.controller._process("ns/job")
    assert harness.api.names(PODS) == []


def test_an_edit_of_a_template_that_is_not_kept_is_noticed(harness: Harness) -> None:
    submit_large(harness)
    harness.sync()
    edit_template(harness, image="example.invalid/train:2")
    harness.sync(times=2)
    assert harness.recorder.reasons.count("TemplateChanged") == 1


def test_an_invalid_one_fails_with_the_reason(harness: Harness) -> None:
    submit_large(harness)
    edit_template(harness, image="")
    harness.sync(times=2)
    assert "containers[0].image: is required" in harness.condition("Failed")["message"]
    assert (reads(harness), harness.api.names(PODS)) == (0, [])


def test_of_a_suspended_job_and_of_one_that_has_ended_no_template_is_kept(harness: Harness) -> None:
    harness.submit_and_sync(Worker=2, run_policy={"suspend": True})
    assert is_trimmed(harness)
    assert harness.condition("Suspended")["status"] == "True"
    harness.api.edit(TFJOBS, "ns", "job", {"spec": {"runPolicy": {"suspend": False}}})
    harness.sync(times=2)
    assert not is_trimmed(harness)
    assert len(harness.api.names(PODS)) == 2
    harness.play_kubelet("job-worker-0", "Succeeded")
    harness.sync(times=2)
    assert is_trimmed(harness)
    assert reads(harness) == 0
    assert "TemplateChanged" not in harness.recorder.reasons
