from tests.unit.api.samples import job_of, tfjob
from tfoperator.api.defaults import default
from tfoperator.api.v1.types import RunPolicy, decode_tfjob


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
