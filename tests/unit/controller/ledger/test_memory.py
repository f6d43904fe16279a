import math
from datetime import UTC, datetime

import msgspec

from tests.unit.controller.builders import make_job
from tfoperator.api.cached_job import without_templates
from tfoperator.api.replicas.templates import is_hash
from tfoperator.api.v1.status import TFJobStatus
from tfoperator.api.v1.types import TFJob, TFJobSpec, decode_tfjob
from tfoperator.controller import Comparison
from tfoperator.controller.ledger import JobMemory


def job(version: str = "10", generation: int = 1, phase: str = "") -> TFJob:
    manifest = {
        "metadata": {"name": "j", "namespace": "ns", "uid": "u", "resourceVersion": version, "generation": generation},
        "spec": {"tfReplicaSpecs": {"worker": {"template": {"spec": {"containers": []}}}}},
        "status": {"phase": phase},
    }
    return decode_tfjob(msgspec.json.encode(manifest))


def test_the_spec_is_looked_at_once_per_generation_and_anew_if_one_comes_again_with_another_spec() -> None:
    memory = JobMemory()
    first = memory.recall(job(), 0.0)
    again = memory.recall(job(version="11"), 0.0)
    assert again.job.spec == first.job.spec
    assert again.problems is first.problems
    assert "Worker" in first.job.spec.tf_replica_specs
    assert any("containers" in problem for problem in first.problems)
    changed = memory.recall(job(version="12", generation=2), 0.0)
    assert changed.job.spec is not first.job.spec
    first, again = (memory.recall(job(generation=0), 0.0) for _ in range(2))
    assert again.job.spec is not first.job.spec, "without a generation it is looked at anew each time"
    assert not memory.refuse("u", 0, "never mind")
    # A backup was restored, and the job has been edited since.
    memory = JobMemory()
    first = memory.recall(job(), 0.0)
    other = job()
    spec = msgspec.structs.replace(other.spec, enable_dynamic_worker=True)
    assert memory.recall(msgspec.structs.replace(other, spec=spec), 0.0).job.spec.enable_dynamic_worker
    assert not first.job.spec.enable_dynamic_worker


def test_a_refusal_is_a_problem_of_its_generation_until_the_next_comparison_and_what_validation_found_stays() -> None:
    memory, refusal = JobMemory(), "the server refuses it"
    problems = memory.recall(job(), 0.0).problems
    for _ in range(2):
        assert memory.refuse("u", 1, refusal)
        assert memory.recall(job(), 0.0).problems == (*problems, refusal)
        memory.compared("u", Comparison(time=datetime.now(UTC), write=False))
        assert memory.recall(job(), 0.0).problems == problems
    assert memory.refuse("u", 1, refusal)
    assert refusal not in memory.recall(job(generation=2), 0.0).problems
    assert not memory.refuse("u", 1, "too late")


def test_a_warning_is_said_once_per_generation_and_nothing_about_a_forgotten_job_kept() -> None:
    memory = JobMemory()
    memory.recall(job(), 0.0)
    assert memory.first_warning("u", "name taken")
    assert not memory.first_warning("u", "name taken")
    memory.recall(job(generation=2), 0.0)
    assert memory.first_warning("u", "name taken")
    memory = JobMemory()
    memory.recall(job(), 0.0)
    memory.forget("u")
    memory.compared("u", Comparison(datetime(2026, 1, 1, tzinfo=UTC), write=False))
    assert not memory.first_warning("u", "x")
    assert len(memory._entries) == 0


def test_a_note_waits_until_it_is_recorded_and_a_newer_one_survives() -> None:
    memory = JobMemory()
    memory.recall(job(), 0.0)
    old = Comparison(datetime(2026, 1, 1, tzinfo=UTC), write=False)
    new = Comparison(datetime(2026, 1, 2, tzinfo=UTC), write=True)
    memory.compared("u", old)
    memory.compared("u", new)
    memory.recorded("u", TFJobStatus(last_reconcile_time=old.time), 1.0)
    assert memory.recall(job(), 0.0).comparison == new
    memory.recorded("u", TFJobStatus(last_reconcile_time=new.time), 1.0)
    assert memory.recall(job(), 0.0).comparison is None


def test_an_edited_template_is_named_once() -> None:
    memory = JobMemory()

    def edited(job: TFJob) -> list[str]:
        return list(memory.recall(job, 0.0).edited_templates)

    def with_template(generation: int, template: object, **more: object) -> TFJob:
        manifest = {
            "metadata": {"name": "j", "uid": "u", "generation": generation},
            "spec": {"tfReplicaSpecs": {"Worker": {"template": template}}, **more},
        }
        return decode_tfjob(msgspec.json.encode(manifest))

    assert edited(with_template(1, {"a": 1, "b": 2})) == []
    assert edited(with_template(2, {"b": 2, "a": 1})) == [], "another order is no other template"
    assert edited(with_template(3, {"a": 3})) == ["Worker"]
    assert edited(with_template(3, {"a": 3})) == []
    assert edited(with_template(4, None)) == ["Worker"]
    checkpoint = {"mountPath": "/c", "volume": {"emptyDir": {}}}
    made_from = {"checkpoint": checkpoint, "progress": {}, "runPolicy": {"restartMode": "InPlace"}}
    made_from |= dict.fromkeys(("clusterArguments", "enableDynamicWorker", "evaluatorInCluster"), True)
    more: dict[str, object] = {}
    for generation, (name, value) in enumerate(made_from.items(), 5):
        more[name] = value
        assert edited(with_template(generation, None, **more)) == ["Worker"], name
    assert edited(with_template(11, None, **more, successPolicy="AllWorkers")) == [], "no pod would differ"


def test_the_ages_of_a_job_and_its_status_are_counted_from_our_first_look_and_our_last_write() -> None:
    memory = JobMemory()
    assert (memory.recall(job(), 1.0).status_age, memory.recall(job(), 1.0).known_for) == (math.inf, 0)
    memory.recorded("u", TFJobStatus(), 2.0)
    assert memory.recall(job(), 5.0).status_age == 3
    assert memory.recall(job("11", generation=2), 5.0).known_for == 4
    memory.recorded("u", TFJobStatus(), 6.0)
    assert memory.recall(job(), 6.5).status_age == 0.5
    memory.forget("u")
    memory.recorded("u", TFJobStatus(), 7.0)
    assert len(memory._entries) == 0


def worker_template(spec: TFJobSpec, kind: str = "worker") -> msgspec.Raw:
    return spec.tf_replica_specs[kind].template


def test_the_cache_and_the_memory_have_one_copy_of_the_templates_and_the_cached_objects_stay_as_they_are() -> None:
    memory = JobMemory()
    for cached in (job("10"), job("11")):
        metadata, spec, status = cached.metadata, cached.spec, cached.status
        for _ in range(2):
            remembered = memory.recall(cached, 0.0)
            assert worker_template(cached.spec) is worker_template(remembered.job.spec, "Worker")
        assert cached.metadata is metadata
        assert cached.spec is spec
        assert cached.status is status


def test_a_spec_that_only_lost_its_templates_is_no_other_and_none_is_kept_here() -> None:
    memory = JobMemory()
    problems = memory.recall(job(), 0.0).problems
    assert memory.first_warning("u", "name taken")
    memory.refuse("u", 1, "the server refuses it")
    bare = msgspec.structs.replace(job("11"), spec=without_templates(job().spec))
    for _ in range(2):
        now = memory.recall(bare, 0.0)
        assert is_hash(worker_template(now.job.spec, "Worker"))
        assert now.problems == (*problems, "the server refuses it")
        assert not memory.first_warning("u", "name taken")
    assert not memory.recall(job("12", generation=2), 0.0).edited_templates


def test_an_edit_of_a_data_service_is_named_unless_only_the_number_of_its_workers_differs() -> None:
    memory = JobMemory()

    def edited(generation: int, **service: object) -> list[str]:
        job = make_job({"Worker": 1}, generation=generation, dataService=service)
        return list(memory.recall(job, 0.0).edited_templates)

    template = {"spec": {"containers": [{"name": "tensorflow", "image": "data:1"}]}}
    assert edited(1, workers=1) == []
    assert edited(2, workers=2) == []
    assert edited(3, workers=2, workDir="/journal") == ["spec.dataService"]
    assert edited(4, workers=2, workDir="/journal", template=template) == ["spec.dataService"]
    assert edited(5, workers=3, workDir="/journal", template=template) == []
