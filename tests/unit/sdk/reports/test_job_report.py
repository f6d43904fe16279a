from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.logs.archive.samples import record
from tfoperator.api.replicas.names import ANNOTATION_STOPPED
from tfoperator.api.v1.status import ReplicaStatus, TFJobStatus
from tfoperator.api.v1.types import ReplicaSpec, TFJob, TFJobSpec
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.views.objects import Pod
from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod, pod_record
from tfoperator.report.facts import FinalState, ReplicaFacts
from tfoperator.sdk.reports.job_report import job_facts

ASKED = datetime(2026, 1, 1, 12, tzinfo=UTC)
STATUS = TFJobStatus(replica_statuses={"Worker": ReplicaStatus()})
JOB = TFJob(spec=TFJobSpec(tf_replica_specs={"Worker": ReplicaSpec()}), status=STATUS)


def archived(code: int | None, after: float, *, deleted: bool = True, reason: str = "") -> ReplicaFacts:
    """A pod that ended so, so many seconds after its deletion had been asked for."""
    finished = None if code is None else ASKED + timedelta(seconds=after)
    container = ArchivedContainer(name="tensorflow", exit_code=code, finished=finished, log="tensorflow.log")
    archived_pod: ArchivedPod = msgspec.structs.replace(
        record(uid="u"),
        phase="Running" if code is None else "Failed",
        reason=reason,
        containers=(container,),
        deletion_requested=ASKED if deleted else None,
    )
    [replica] = job_facts(JOB, [], [archived_pod], None).replicas
    return replica


@pytest.mark.parametrize(
    ("code", "after", "more", "stopped"),
    [
        (143, 1, {}, True),
        (143, 0, {}, True),  # in the same second: its exit code decides
        (137, 30, {}, True),
        (1, 2, {}, True),  # whatever its exit code
        (1, 0, {}, False),
        (1, -5, {}, False),  # it failed, and was deleted for that
        (143, -5, {}, False),
        (143, -5, {"reason": "DeadlineExceeded"}, True),
        (143, 1, {"deleted": False}, False),
    ],
)
def test_a_replica_that_was_told_to_go_has_not_failed(code: int, after: float, more: Any, stopped: bool) -> None:
    replica = archived(code, after, **more)
    assert replica.runs[-1].stopped is stopped
    assert replica.state is (FinalState.STOPPED if stopped else FinalState.FAILED)
    assert archived(None, 0).runs[-1].stopped, "nobody saw its end"


def test_the_newest_stacks_of_a_replica_are_named() -> None:
    def taken(uid: str, stacks: str) -> ArchivedPod:
        container = ArchivedContainer(name="tensorflow", exit_code=137, log="tensorflow.log", stacks=stacks)
        return msgspec.structs.replace(record(uid=uid, folder=f"/archive/{uid}"), containers=(container,))

    def stacks_path(*records: ArchivedPod) -> str:
        [replica] = job_facts(JOB, [], records, None).replicas
        return replica.stacks

    assert stacks_path(taken("a", ""), taken("b", "")) == ""
    assert stacks_path(taken("a", "s.txt"), taken("b", "")) == "/archive/a/s.txt"
    assert stacks_path(taken("a", "s.txt"), taken("b", "s.txt")) == "/archive/b/s.txt"


def test_the_states_of_a_progress_bar_push_no_traceback_out_of_what_is_known(tmp_path: Path) -> None:
    states = "".join(f"\rcleaning up {number}/3000" for number in range(3001))
    text = f'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nValueError: no data\n{states}\n'
    (tmp_path / "tensorflow.log").write_text(text)
    container = ArchivedContainer(name="tensorflow", exit_code=1, log="tensorflow.log")
    archived_pod = msgspec.structs.replace(
        record(uid="u", folder=str(tmp_path)), phase="Failed", containers=(container,)
    )
    with Client(ClusterConfig(server="http://127.0.0.1:1")) as client:
        [replica] = job_facts(JOB, [], [archived_pod], client).replicas
    assert replica.runs[-1].tail[-2:] == ("ValueError: no data", "cleaning up 3000/3000")


@pytest.mark.parametrize(
    ("code", "status", "stopped", "state", "decisive"),
    [
        (0, {"phase": "Running"}, "", FinalState.SUCCEEDED, 0),
        (3, {"phase": "Running"}, "", FinalState.FAILED, 3),
        (0, {"phase": "Failed"}, "", FinalState.SUCCEEDED, 0),
        (0, {"phase": "Failed", "reason": "DeadlineExceeded"}, "replica-ended", FinalState.SUCCEEDED, 0),
        (3, {"phase": "Failed", "reason": "DeadlineExceeded"}, "replica-ended", FinalState.FAILED, 3),
        (143, {"phase": "Failed", "reason": "DeadlineExceeded"}, "job-failed", FinalState.STOPPED, 143),
        (None, {"phase": "Running"}, "", FinalState.RUNNING, None),
    ],
)
def test_the_container_tensorflow_decides_what_a_replica_has_done(
    code: int | None, status: dict[str, str], stopped: str, state: FinalState, decisive: int | None
) -> None:
    ends = (("proxy", 137 if status["phase"] == "Failed" or code is None else None), ("tensorflow", code))
    states = [{"running": {}} if code is None else {"terminated": {"exitCode": code}} for _, code in ends]
    containers = [{"name": name, "state": state} for (name, _), state in zip(ends, states, strict=True)]
    manifest = {
        "metadata": {"name": "p", "uid": "u", "annotations": {ANNOTATION_STOPPED: stopped}},
        "spec": {"restartPolicy": "Never"},
        "status": {**status, "containerStatuses": containers},
    }
    pod = msgspec.convert(manifest, Pod)
    [replica] = job_facts(JOB, [pod], [], None).replicas
    assert (replica.state, replica.runs[-1].exit_code) == (state, decisive)
    assert replica.runs[-1].stopped is (state is FinalState.STOPPED)
    assert (replica.runs[-1].reason == "DeadlineExceeded") is (state is FinalState.STOPPED)
    kept = (ArchivedContainer(name="tensorflow", exit_code=code, log="tensorflow.log"),)
    [replica] = job_facts(JOB, [], [pod_record(JOB.metadata, pod, ASKED, kept)], None).replicas
    assert status["phase"] == "Running" or replica.state is state


def test_a_run_that_ended_before_its_pod_was_stopped_has_failed_by_itself() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    ends = [{"name": "tensorflow", "state": {"waiting": {}}, "lastState": ended}]
    ends.append({"name": "proxy", "state": {"terminated": {"exitCode": 143}}})
    manifest = {
        "metadata": {"name": "p", "uid": "u", "annotations": {ANNOTATION_STOPPED: "job-failed"}},
        "status": {"phase": "Failed", "reason": "DeadlineExceeded", "containerStatuses": ends},
    }
    [replica] = job_facts(JOB, [msgspec.convert(manifest, Pod)], [], None).replicas
    assert [(run.exit_code, run.reason, run.failed) for run in replica.runs] == [(137, "OOMKilled", True)]
    first = ArchivedContainer(name="tensorflow", exit_code=137, log="0.log")
    last = ArchivedContainer(name="tensorflow", restarts=1, exit_code=143, log="1.log", earlier=(first,))
    archived_pod = msgspec.structs.replace(record(uid="u"), reason="DeadlineExceeded", containers=(last,))
    [replica] = job_facts(JOB, [], [archived_pod], None).replicas
    assert [run.stopped for run in replica.runs] == [False, True]


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("waits", [False, True])
def test_runs_of_one_pod_are_told_whether_its_kubelet_has_them_or_the_archive_alone(waits: bool, deleted: bool) -> None:
    first = tuple(ArchivedContainer(name="tensorflow", restarts=n, exit_code=130 + n, log=f"{n}.log") for n in (0, 1))
    last = {"exit_code": 133, "log": "3.log", "previous_exit_code": 132, "previous_log": "2.log"}
    container = ArchivedContainer(name="tensorflow", restarts=3, earlier=first, **last)
    record_ = msgspec.structs.replace(record(uid="u"), phase="Failed", containers=(container,))
    states = {code: {"terminated": {"exitCode": code}} for code in (132, 133)}
    state, before = ({"waiting": {}}, states[133]) if waits else (states[133], states[132])
    seen = {"name": "tensorflow", "restartCount": 3, "state": state, "lastState": before}
    status = {"phase": "Failed", "containerStatuses": [seen]}
    meta = {"name": record_.pod, "uid": "u", "labels": record_.labels}
    pod = msgspec.convert({"metadata": meta, "status": status}, Pod)
    [replica] = job_facts(JOB, [] if deleted else [pod], [record_], None).replicas
    assert [run.exit_code for run in replica.runs] == [130, 131, 132, 133]
    assert replica.restarts == 3
