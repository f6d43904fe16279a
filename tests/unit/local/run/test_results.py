from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tfoperator.api.replicas.names import ANNOTATION_JOB_RESTARTS, replica_labels
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.status import JobCondition, TFJobStatus
from tfoperator.api.v1.types import TFJob
from tfoperator.kube.views.objects import ObjectMeta, Pod
from tfoperator.kube.views.pod_status import ContainerStatus, PodStatus
from tfoperator.local.node.log_store import LogStore
from tfoperator.local.run.results import Evidence, FinalState, RunOutcome, job_result
from tfoperator.local.runtime.log_files import LogFile


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    return LogStore(tmp_path)


def pod(replica_type: ReplicaType, index: int, **more: Any) -> Pod:
    labels = replica_labels("job", replica_type, index, is_master=False)
    name = f"job-{replica_type.lower()}-{index}"
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=name, labels=labels), **more)


def job(*conditions: JobCondition) -> TFJob:
    return TFJob(metadata=ObjectMeta(name="job", namespace="ns"), status=TFJobStatus(conditions=conditions))


def attempt(
    store: LogStore, pod: Pod, code: int | None, text: str = "", *, stopped: bool = False, **at: Any
) -> LogFile:
    log = store.open("ns", pod.metadata.name, at.get("container", "tensorflow"))
    if text:
        log.append(text)
    log.close(code, stopped=stopped)
    return log


FAILED = JobCondition("Failed", "True", "TFJobFailed", "a worker failed")


def test_every_outcome_has_its_exit_code() -> None:
    codes = {"Succeeded": 0, "Failed": 1, "TimedOut": 124, "Interrupted": 130}
    assert {str(outcome): outcome.exit_code for outcome in RunOutcome} == codes


def test_a_suspension_is_no_restart_and_a_joint_restart_is_counted(store: LogStore) -> None:
    suspended, together = pod(ReplicaType.WORKER, 0), pod(ReplicaType.WORKER, 1)
    for worker in (suspended, together):
        attempt(store, worker, 137, stopped=True)
        attempt(store, worker, 0)
    annotations = {ANNOTATION_JOB_RESTARTS: "1"}
    together = replace(together, metadata=replace(together.metadata, annotations=annotations))
    result = job_result(job(JobCondition("Succeeded", "True")), [suspended, together], store)
    assert {replica.name: replica.restarts for replica in result.replicas} == {"worker-0": 0, "worker-1": 1}
    assert result.report is not None
    assert [restart.replica for restart in result.report.restarts] == ["worker-1"]


def test_an_init_container_that_runs_again_with_its_pod_is_no_further_restart(store: LogStore) -> None:
    init = ContainerStatus(name="fetch")
    worker = pod(ReplicaType.WORKER, 0, status=PodStatus(init_container_statuses=(init,)))
    for code in (1, 0):
        attempt(store, worker, 0, container="fetch")
        attempt(store, worker, code)
    (replica,) = job_result(job(JobCondition("Succeeded", "True")), [worker], store).replicas
    assert replica.restarts == 1


def test_what_became_of_each_replica(store: LogStore) -> None:
    chief, worker, other = (pod(ReplicaType.CHIEF, 0), *(pod(ReplicaType.WORKER, index) for index in range(2)))
    ps, unborn, obedient = (pod(ReplicaType.PS, index) for index in range(3))
    attempt(store, chief, 0)
    attempt(store, worker, 1, "first")
    log = attempt(store, worker, 1, "\n".join(str(n) for n in range(30)))
    attempt(store, other, 137)
    attempt(store, other, 0)
    attempt(store, ps, 143, stopped=True)
    attempt(store, obedient, 0, stopped=True)
    result = job_result(job(FAILED), [chief, worker, other, ps, unborn, obedient], store)
    states = {replica.name: (replica.state, replica.restarts, replica.exit_code) for replica in result.replicas}
    assert states == {
        "chief-0": (FinalState.SUCCEEDED, 0, 0),
        "worker-0": (FinalState.FAILED, 1, 1),
        "worker-1": (FinalState.SUCCEEDED, 1, 0),
        "ps-0": (FinalState.STOPPED, 0, 143),
        "ps-1": (FinalState.NEVER_RAN, 0, None),
        "ps-2": (FinalState.STOPPED, 0, 0),
    }
    (failed,) = result.failed_replicas
    assert failed.last_lines == tuple(str(n) for n in range(10, 30))
    assert failed.logs[-1] == str(log.path)
    assert not result.succeeded


@pytest.mark.parametrize(
    ("code", "stopped", "state"), [(0, False, "Succeeded"), (3, False, "Failed"), (143, True, "Stopped")]
)
def test_a_sidecar_that_failed_is_no_failure_of_the_training(
    store: LogStore, code: int, stopped: bool, state: str
) -> None:
    worker = pod(ReplicaType.WORKER, 0)
    attempt(store, worker, 2, "why", container="proxy")
    (replica,) = job_result(job(FAILED), [worker], store).replicas
    assert (replica.state, replica.exit_code, replica.restarts, replica.last_lines) == ("Failed", 2, 0, ("why",))
    attempt(store, worker, code, stopped=stopped)
    (replica,) = job_result(job(FAILED), [worker], store).replicas
    assert (replica.state, replica.exit_code, replica.restarts, replica.last_lines) == (state, code, 0, ())


@pytest.mark.parametrize(
    ("ended", "state", "code"),
    [
        ({"prepare": 0}, FinalState.NEVER_RAN, None),
        ({"prepare": 0, "tensorflow": 0}, FinalState.SUCCEEDED, 0),
        ({"prepare": 5}, FinalState.FAILED, 5),
    ],
)
def test_init_containers_that_ended_well_are_no_success_of_the_replica(
    store: LogStore, ended: dict[str, int], state: FinalState, code: int | None
) -> None:
    worker = pod(ReplicaType.WORKER, 0, status=PodStatus(init_container_statuses=(ContainerStatus(name="prepare"),)))
    for name, its_code in ended.items():
        attempt(store, worker, its_code, f"why {name} ended", container=name)
    (replica,) = job_result(job(), [worker], store).replicas
    assert (replica.state, replica.exit_code, replica.restarts, len(replica.logs)) == (state, code, 0, len(ended))
    assert state != FinalState.FAILED or replica.last_lines == (f"why {name} ended",)


@pytest.mark.parametrize(("code", "asked"), [(1, 1), (0, 0)])
def test_the_disk_is_asked_where_a_replica_has_failed(store: LogStore, code: int, asked: int) -> None:
    worker, calls = pod(ReplicaType.WORKER, 0), list[str]()

    def full() -> str:
        calls.append("asked")
        return "/run"

    attempt(store, worker, code, "it begins")
    report = job_result(job(FAILED), [worker], store, evidence=Evidence(full_disk=full)).report
    assert len(calls) == asked
    assert any(sentence.startswith("The disk of /run is full") for sentence in report.advice) is bool(asked)


def test_the_last_lines_of_a_failed_replica_have_no_secrets(store: LogStore) -> None:
    worker = pod(ReplicaType.WORKER, 0)
    attempt(store, worker, 1, "HF_TOKEN=hunter2hunter2\nstep 3")
    result = job_result(job(), [worker], store)
    assert result.replicas[0].last_lines == ("HF_TOKEN=<masked>", "step 3")
    assert result.report is not None
    assert result.report.failures[0].last_lines == ("HF_TOKEN=<masked>", "step 3")
