"""Coming from the Go operator, and going back: docs/migrate.md on a real API server, with the Go operator itself."""

import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hack.controlplane import control_plane
from tests.e2e.migration import OTHERS, TODAY, Migration, Objects, migration, play_all_running, replicas_of
from tests.support.cluster import Json, tfjob
from tests.support.eventually import eventually, eventually_holds
from tests.support.go_operator import USERS, WEBHOOKS
from tests.support.operated import JobOnCluster, Operated
from tfoperator.api.schema.crd import crd

# The timeout is for the switch, which one fixture makes: the sum of its longest waits.
pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(600)]

POLICY = "spec.runPolicy.cleanPodPolicy"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Migration]:
    """The jobs of the Go operator, which is gone, and no operator yet."""
    # Of its own: it begins with the Go operator's CRD.
    with control_plane(users=USERS) as plane, migration(plane, tmp_path_factory.mktemp("migration")) as migrated:
        yield migrated


class Here(NamedTuple):
    """Our operator in the place of the other, and the state of its jobs before anything happens to them."""

    operated: Operated
    states: dict[str, str]
    objects: dict[str, Objects]

    def settle(self) -> None:
        self.operated.settle()


@pytest.fixture(scope="module")
def here(there: Migration) -> Here:
    operated = there.start_ours(there.team)
    operated.settle()
    return Here(operated, there.shown(), there.all_objects())


def findings(report: Json, name: str) -> dict[str, str]:
    """The effort of each finding of a job by its field."""
    [job] = [job for job in report["jobs"] if job["name"] == name]
    return {finding["field"]: finding["effort"] for finding in job["findings"]}


def pod_fields(version: Json) -> set[str]:
    """The fields of a pod's spec that a version of the CRD describes; the Go operator's describes them all."""
    job = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    replica = job["tfReplicaSpecs"]["additionalProperties"]["properties"]
    return set(replica["template"]["properties"]["spec"].get("properties", ()))


def wait_restarts(job: JobOnCluster, kind: str, counts: dict[str, int]) -> None:
    def counted() -> None:
        restarts = job.status()["replicaStatuses"][kind].get("restartCounts") or {}
        assert restarts == counts, restarts

    eventually_holds(counted, every=0.05, what=f"the restarts of {job.name}")


def test_what_migrate_finds(there: Migration) -> None:
    first, last = there.reports
    cluster = {finding["field"]: finding["effort"] for finding in first["cluster"]}
    assert cluster == {
        "Deployment kubeflow/training-operator": "action",
        f"ValidatingWebhookConfiguration {WEBHOOKS}": "action",
        "CustomResourceDefinition tfjobs.kubeflow.org": "change",
        "RBAC": "note",
    }
    assert first["actions"] == 3
    assert {job["name"] for job in first["jobs"]} == set(there.jobs)
    assert findings(first, "plain") == {
        "spec.tfReplicaSpecs[Chief].restartPolicy": "change", POLICY: "change", "status": "note",
    }  # fmt: skip
    assert POLICY not in findings(first, "kept")
    assert findings(first, "exits") == {"spec.runPolicy.backoffLimit": "change", POLICY: "change", "status": "note"}
    assert findings(first, "in-place") == findings(first, "exits")
    assert findings(first, "ended") == {POLICY: "action"}
    assert findings(first, "cleaned") == {}
    assert last["actions"] == 0
    assert findings(last, "ended") == {}
    assert {finding["field"]: finding["effort"] for finding in last["cluster"]} == {
        "Deployment kubeflow/training-operator": "note",
        "CustomResourceDefinition tfjobs.kubeflow.org": "change",
        "RBAC": "note",
    }
    lines = there.reports_as_text.splitlines()
    stop = "kubectl -n kubeflow scale deployment/training-operator --replicas=0"
    assert f"          -> stop the Go operator before you start tfoperator: {stop}" in lines
    assert "TFJob team/plain" in lines


def test_our_crd_leaves_nothing_of_the_other_and_one_owner(there: Migration) -> None:
    applied = json.loads(there.kubectl("get", "crd/tfjobs.kubeflow.org", "--output=json", "--show-managed-fields"))
    [version] = applied["spec"]["versions"]
    assert pod_fields(version) == pod_fields(crd()["spec"]["versions"][0])
    managers = [
        field["manager"]
        for field in applied["metadata"]["managedFields"]
        if "f:versions" in field["fieldsV1"].get("f:spec", {})
    ]
    assert managers == ["kubectl"]
    assert "annotations" not in applied["metadata"]
    there.apply_our_crd()  # as an upgrade does, without --force-conflicts


def test_nothing_that_runs_is_touched(there: Migration, here: Here) -> None:
    assert {name: here.states[name] for name in TODAY} == {name: there.states[name] for name in TODAY}
    assert {name: here.objects[name] for name in TODAY} == {name: there.objects[name] for name in TODAY}
    assert there.jobs["exits"].restarts() == 0, "the Go operator's own are forgotten with the pods"
    wait_restarts(there.jobs["in-place"], "Worker", {"1": 1})


def test_workers_finish_in_peace_after_their_chief_and_then_the_parameter_server_is_stopped(
    there: Migration, here: Here
) -> None:
    job = there.jobs["plain"]
    job.play("Succeeded", "chief-0", leads_to="Succeeded")
    here.settle()
    job.wait_stopped()
    job.play("Succeeded", "worker-0", "worker-1")
    assert set(job.wait_stopped("ps-0")) == {"chief-0", "ps-0", "worker-0", "worker-1"}


def test_an_explicit_none_leaves_what_runs(there: Migration, here: Here) -> None:
    job = there.jobs["kept"]
    job.play("Succeeded", "worker-0", "worker-1", leads_to="Succeeded")
    here.settle()
    assert set(job.wait_stopped()) == {"ps-0", "worker-0", "worker-1"}
    assert Objects.of(job).keys() == there.objects["kept"].keys()


def test_exit_codes_mean_what_they_did(there: Migration, here: Here) -> None:
    job = there.jobs["exits"]
    job.fail("worker-1", exit_code=137)
    job.play("Running", "worker-1", leads_to="Running")
    wait_restarts(job, "Worker", {"1": 1})
    job.play("Failed", "worker-1", exit_code=1, leads_to="Failed")
    job.wait_stopped("ps-0", "worker-0")


def test_restarts_in_place_go_on_from_those_before(there: Migration, here: Here) -> None:
    job = there.jobs["in-place"]
    job.play("Running", "worker-0", restarts=2)
    wait_restarts(job, "Worker", {"0": 2, "1": 1})
    job.play("Running", "worker-1", restarts=2)
    assert "backoff limit" in job.wait("Failed")["message"]
    job.wait_stopped("worker-0", "worker-1")


def test_lower_case_types_and_defaults_mean_what_they_did(there: Migration, here: Here) -> None:
    job = there.jobs["lower"]
    job.play("Succeeded", "worker-0", leads_to="Succeeded")
    assert set(job.wait_stopped("ps-0")) == {"ps-0", "worker-0"}


def test_a_job_that_waited_begins(there: Migration, here: Here) -> None:
    job = there.jobs["pending"]
    play_all_running(job)
    job.play("Succeeded", "worker-0", "worker-1", leads_to="Succeeded")
    assert {key: identity[0] for key, identity in Objects.of(job).items()} == {
        key: identity[0] for key, identity in there.objects["pending"].items()
    }


def test_a_job_that_was_suspended_is_resumed(there: Migration, here: Here) -> None:
    job = there.jobs["paused"]
    job.suspend(False)
    play_all_running(job)
    assert job.restarts() == 0
    job.play("Succeeded", "worker-0", "worker-1", leads_to="Succeeded")


def test_jobs_that_have_ended_are_left_as_they_are(there: Migration, here: Here) -> None:
    for name in ("ended", "cleaned"):
        assert Objects.of(there.jobs[name]) == there.objects[name]
        assert there.jobs[name].state() == "Succeeded"


def test_a_replica_that_failed_while_there_was_no_operator_is_started_again_once(there: Migration, here: Here) -> None:
    job, before = there.jobs["fails-retryably"], there.objects["fails-retryably"]
    job.wait_successor("worker-1", of=before["pod worker-1"][0])
    play_all_running(job)
    wait_restarts(job, "Worker", {"1": 1})
    assert {key for key, identity in Objects.of(job).items() if identity[0] != before[key][0]} == {"pod worker-1"}


def test_a_job_that_failed_for_good_while_there_was_no_operator_fails(there: Migration, here: Here) -> None:
    job = there.jobs["fails-for-good"]
    job.wait("Failed")
    assert set(job.wait_stopped("ps-0", "worker-0")) == {"ps-0", "worker-0", "worker-1"}


def test_a_restart_that_the_go_operator_began_is_finished(there: Migration, here: Here) -> None:
    job, before = there.jobs["halfway"], there.objects["halfway"]
    assert job.pod_uid("worker-1") == before["pod worker-1"][0], "it is still going"
    there.hold_pod(job, "worker-1", None)
    job.wait_successor("worker-1", of=before["pod worker-1"][0])
    play_all_running(job)
    assert {key for key, identity in Objects.of(job).items() if identity[0] != before[key][0]} == {"pod worker-1"}


def test_a_job_that_is_being_deleted_is_not_revived(there: Migration, here: Here) -> None:
    job = there.jobs["deleted"]
    assert "worker-1" not in job.pods()
    job.patch({"metadata": {"finalizers": None}})
    eventually(job.is_gone, every=0.05, what="it is gone")


def test_the_way_back(there: Migration) -> None:
    ours = there.start_ours(there.others)
    ours.settle()
    jobs = {name: job for name, job in there.jobs.items() if name.startswith("back")}
    jobs["back-fails"].fail("worker-0", exit_code=137)
    play_all_running(jobs["back-fails"])
    jobs["back-ends"].play("Succeeded", "worker-0")
    jobs["back-ends"].play("Succeeded", "chief-0", leads_to="Succeeded")
    jobs["back-ends"].wait_stopped("ps-0")
    jobs["back-pauses"].suspend()
    jobs["back-pauses"].wait("Suspended")
    jobs["back-pauses"].wait_pods()
    jobs["back-new"] = ours.running("back-new", Worker=2)
    ours.settle()
    assert ours.operator.stop() == 0

    states, objects = there.shown(), {name: Objects.of(job) for name, job in jobs.items()}
    there.go_operator.start(f"--namespace={OTHERS}")
    for number in range(2):  # older jobs have been looked at once the second new job has begun
        canary = JobOnCluster(there.others, there.others.submit(tfjob(f"new-{number}", Worker=1)))
        play_all_running(canary)
    assert {name: there.shown()[name] for name in jobs} == {name: states[name] for name in jobs}
    assert {name: Objects.of(job) for name, job in jobs.items()} == objects

    jobs["back"].play("Succeeded", *replicas_of(jobs["back"]), leads_to="Succeeded")
    jobs["back-fails"].fail("worker-0", exit_code=137)
    play_all_running(jobs["back-fails"])
    jobs["back-fails"].play("Failed", "worker-0", exit_code=1, leads_to="Failed")
    jobs["back-pauses"].suspend(False)
    play_all_running(jobs["back-pauses"])
    jobs["back-pauses"].play("Succeeded", "chief-0", leads_to="Succeeded")
    jobs["back-new"].play("Succeeded", "worker-0", leads_to="Succeeded")
    there.go_operator.stop()
