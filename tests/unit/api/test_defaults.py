import pytest

from tests.unit.api.samples import job_of, tfjob
from tfoperator.api.defaults import default
from tfoperator.api.fields.problems import errors
from tfoperator.api.v1.parts.run_policy import RunPolicy
from tfoperator.api.v1.types import decode_tfjob
from tfoperator.api.validation.job import validate


def test_what_is_unsaid_or_an_empty_string_gets_the_peers_defaults() -> None:
    job = default(decode_tfjob(b'{"metadata":{"name":"j"},"spec":{"tfReplicaSpecs":{"Worker":{"template":{}}}}}'))
    worker = job.spec.tf_replica_specs["Worker"]
    assert (worker.replicas, worker.restart_policy, bytes(worker.template)) == (1, "Never", b"{}")
    assert job.spec.run_policy == RunPolicy(suspend=False)
    assert (job.spec.success_policy, job.spec.enable_dynamic_worker) == ("", False)
    job = default(job_of(tfjob({"Worker": {"restartPolicy": ""}}, runPolicy={"cleanPodPolicy": ""}, network="")))
    worker = job.spec.tf_replica_specs["Worker"]
    assert worker.restart_policy == "Never"
    assert job.spec.run_policy.clean_pod_policy is None
    assert job.spec.network is None


def test_replica_types_get_their_proper_case_and_those_that_differ_only_in_it_stay_for_validation_to_see() -> None:
    job = default(job_of(tfjob({"worker": {}, "ps": {}, "CHIEF": {}, "evaluatoR": {}})))
    assert list(job.spec.tf_replica_specs) == ["Worker", "PS", "Chief", "Evaluator"]
    job = default(job_of(tfjob({"worker": {}, "Worker": None, "Eval": {}})))
    assert list(job.spec.tf_replica_specs) == ["worker", "Worker", "Eval"]
    assert job.spec.tf_replica_specs["Worker"] is None


@pytest.mark.parametrize(
    ("stored", "counts_as"), [(None, None), (1, 30), (29, 30), (30, 30), (600, 600), (0, 0), (-1, -1)]
)
def test_a_deadline_that_an_older_crd_allowed_counts_as_the_least_one_and_is_no_error(
    stored: int | None, counts_as: int | None
) -> None:
    job = default(job_of(tfjob({"Worker": {}}, runPolicy={"progressDeadlineSeconds": stored})))
    assert job.spec.policy.progress_deadline_seconds == counts_as
    wrong = [error for error in errors(validate(job)) if "progressDeadlineSeconds" in str(error)]
    assert bool(wrong) is (counts_as is not None and counts_as < 1)
