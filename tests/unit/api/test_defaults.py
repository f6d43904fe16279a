from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.api.samples import job_of, tfjob
from tfoperator.api.defaults import default
from tfoperator.api.v1.types import ReplicaSpec, RunPolicy, TFJob, TFJobSpec, decode_tfjob

replica_specs = st.one_of(
    st.none(),
    st.builds(
        ReplicaSpec,
        replicas=st.none() | st.integers(-5, 5),
        restart_policy=st.sampled_from([None, "", "Always", "sometimes"]),
        template=st.sampled_from([msgspec.Raw(), msgspec.Raw(b"null"), msgspec.Raw(b"[]")]),
    ),
)
odd_jobs = st.builds(
    lambda specs, run_policy, success: TFJob(
        spec=TFJobSpec(tf_replica_specs=specs, run_policy=run_policy, success_policy=success)
    ),
    st.dictionaries(st.sampled_from(["Worker", "worker", "WORKER", "ps", "chief", "Eval", "", "ſ"]), replica_specs),
    st.none() | st.builds(RunPolicy, clean_pod_policy=st.sampled_from([None, "", "All", "x"])),
    st.sampled_from([None, "", "AllWorkers", "x"]),
)


def test_what_is_unsaid_gets_the_peers_defaults() -> None:
    job = default(decode_tfjob(b'{"metadata":{"name":"j"},"spec":{"tfReplicaSpecs":{"Worker":{"template":{}}}}}'))
    worker = job.spec.tf_replica_specs["Worker"]
    assert (worker.replicas, worker.restart_policy, bytes(worker.template)) == (1, "Never", b"{}")
    assert job.spec.run_policy == RunPolicy(suspend=False)
    assert (job.spec.success_policy, job.spec.enable_dynamic_worker) == ("", False)


def test_replica_types_get_their_proper_case() -> None:
    job = default(job_of(tfjob({"worker": {}, "ps": {}, "CHIEF": {}, "evaluatoR": {}})))
    assert list(job.spec.tf_replica_specs) == ["Worker", "PS", "Chief", "Evaluator"]


def test_keys_that_differ_only_in_case_stay_for_validation_to_see() -> None:
    job = default(job_of(tfjob({"worker": {}, "Worker": {}, "Eval": {}})))
    assert list(job.spec.tf_replica_specs) == ["worker", "Worker", "Eval"]


def test_an_empty_string_counts_as_unset() -> None:
    job = default(job_of(tfjob({"Worker": {"restartPolicy": ""}}, runPolicy={"cleanPodPolicy": ""}, network="")))
    worker = job.spec.tf_replica_specs["Worker"]
    assert worker.restart_policy == "Never"
    assert job.spec.run_policy.clean_pod_policy is None
    assert job.spec.network is None


@given(odd_jobs)
def test_defaulting_never_raises_drops_nothing_and_settles_at_once(job: TFJob) -> None:
    once = default(job)
    assert default(once) == once
    assert len(once.spec.tf_replica_specs) == len(job.spec.tf_replica_specs)
    assert [s is None for s in once.spec.tf_replica_specs.values()] == [
        s is None for s in job.spec.tf_replica_specs.values()
    ]
