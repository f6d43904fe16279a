"""The replica that began it, by an error's words: the report names it, and reads no more logs than that needs."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.v1.status import ReplicaStatus, TFJobStatus
from tfoperator.api.v1.types import ReplicaSpec, TFJob, TFJobSpec
from tfoperator.kube.views.objects import Pod, decode_pod
from tfoperator.report.report import make_report
from tfoperator.sdk.reports.culprit import MAX_SUSPECTS, find_culprit
from tfoperator.sdk.reports.job_report import job_facts

STATUS = TFJobStatus(replica_statuses={"Worker": ReplicaStatus()})
JOB = TFJob(spec=TFJobSpec(tf_replica_specs={"Worker": ReplicaSpec()}), status=STATUS)
CAUSE = ("step 7", "Traceback (most recent call last):", '  File "t.py", line 1, in f', "ValueError: no")
CONSEQUENCE = ("step 7", "UnavailableError: Connection reset by peer")


class Kept:
    """A client that has logs by pod, and notes whose were read."""

    def __init__(self, logs: dict[str, tuple[str, ...]]) -> None:
        self._logs = logs
        self.read: list[str] = []

    def pod_log(self, _: str, pod: str, *__: str, **___: object) -> AbstractContextManager[list[bytes]]:
        self.read.append(pod)
        return nullcontext(["\n".join(self._logs.get(pod, ())).encode()])


def failed(index: int, code: int, second: int, *, reason: str = "", deleted: bool = False) -> Pod:
    """A worker whose container has ended so."""
    when = f"2026-01-01T12:00:{second:02}Z"
    ended = {"exitCode": code, "finishedAt": when, "reason": "Completed" if code == 0 else "Error"}
    meta = {
        "name": f"mnist-worker-{index}",
        "namespace": "default",
        "uid": f"u{index}",
        "labels": {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(index)},
        **({"deletionTimestamp": "2026-01-01T12:00:30Z", "deletionGracePeriodSeconds": 30} if deleted else {}),
    }
    status = {
        "phase": "Succeeded" if code == 0 else "Failed",
        "reason": reason,
        "containerStatuses": [{"name": "tensorflow", "restartCount": 0, "state": {"terminated": ended}}],
    }
    return decode_pod(msgspec.json.encode({"metadata": meta, "spec": {}, "status": status}))


CODES, TEXTS = st.sampled_from([0, 1, 1, 137, 143]), st.sampled_from([CAUSE, CONSEQUENCE, ()])
REASONS = st.sampled_from(["", "", "DeadlineExceeded"])


@given(st.lists(st.tuples(CODES, st.integers(0, 6), TEXTS, REASONS, st.booleans()), max_size=8))
def test_error_and_report_name_the_same_replica(workers: list[Any]) -> None:
    pods = [failed(n, code, at, reason=reason, deleted=gone) for n, (code, at, _, reason, gone) in enumerate(workers)]
    logs = {pod.metadata.name: worker[2] for pod, worker in zip(pods, workers, strict=True)}
    kept = Kept(logs)
    in_error = find_culprit(JOB, pods, [], kept)
    reported = make_report(job_facts(JOB, pods, [], Kept(logs))).culprit
    named = [culprit and (culprit.replica, culprit.exit_code) for culprit in (in_error, reported)]
    assert named[0] == named[1]
    assert len(kept.read) <= len(pods)


def test_only_the_logs_of_those_that_may_have_begun_it_are_read_and_not_of_a_thousand() -> None:
    pods = [failed(n, 1, 20 + n) for n in range(3, 30)] + [failed(1, 1, 10), failed(2, 1, 11)]
    kept = Kept({"mnist-worker-1": CONSEQUENCE, "mnist-worker-2": CAUSE})
    culprit = find_culprit(JOB, pods, [], kept)
    assert (culprit.replica, culprit.last_lines[-1]) == ("worker-2", "ValueError: no")
    assert sorted(kept.read) == ["mnist-worker-1", "mnist-worker-2"]
    at_once = Kept({})
    assert find_culprit(JOB, [failed(n, 1, 5) for n in range(1000)], [], at_once) is not None
    assert len(at_once.read) == MAX_SUSPECTS


def test_an_error_quotes_no_secret() -> None:
    client = Kept({"mnist-worker-0": ("step 7", "HF_TOKEN=hunter2hunter2", "ValueError: no")})
    culprit = find_culprit(JOB, [failed(0, 1, 1)], (), client)  # type: ignore[arg-type]
    assert culprit is not None
    assert culprit.last_lines == ("step 7", "HF_TOKEN=<masked>", "ValueError: no")
