"""The wait for a TFJob's end: whose logs are forwarded when two watches report one change in either order."""

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tests.support import manifests
from tests.support.eventually import eventually
from tests.support.fake_api import FakeApi
from tests.unit.launcher.container.test_backend import Source
from tests.unit.logs.lines.test_lines import stamp
from tfoperator.api.replicas.names import replica_labels
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.base.clock import StopSignal
from tfoperator.kube.client import Client
from tfoperator.kube.protocol.resources import PODS
from tfoperator.launcher import LaunchContext, PermanentFailure
from tfoperator.launcher.container.backend import Launch, Mailbox
from tfoperator.launcher.core.record import WorkDirectory
from tfoperator.launcher.platforms.kubernetes.api_calls import ApiCalls
from tfoperator.launcher.platforms.kubernetes.pod_status import PodView, decode_pod_view
from tfoperator.launcher.platforms.tfjob import TFJobWait


class _Api(FakeApi):
    """Every container has printed the name of its pod."""

    def pod_log(self, namespace: str, pod: str, container: str, **_: Any) -> Source:
        return Source([f"{stamp(1)} {pod}\n".encode()])


SUCCEEDED = {"type": "Succeeded", "status": "True", "reason": "TFJobSucceeded", "message": "done"}
SAID = '{"outputs": {"model": {"uri": "/new"}}}'


def job_of(workers: int, condition: dict[str, str] = SUCCEEDED) -> dict[str, Any]:
    body = manifests.tfjob("step", Worker=workers) | {"status": {"conditions": [condition]}}
    body["metadata"]["namespace"] = "default"
    return body


def wait_for(api: FakeApi, job: dict[str, Any], folder: Path, **options: Any) -> TFJobWait:
    context = LaunchContext(tell=lambda _: None, **options)
    launch = Launch("step", "r", context, StopSignal(), WorkDirectory(folder), Mailbox(context.clock))
    wait = TFJobWait(launch, ApiCalls(cast(Client, api), "default", launch), "step", job["metadata"]["uid"])
    eventually(lambda: api.count("watch", "pods") == 1, what="the watch of pods is open")
    return wait


def replica_of(job: dict[str, Any], index: int, **status: Any) -> dict[str, Any]:
    labels = replica_labels("step", ReplicaType.WORKER, index, is_master=index == 0)
    pod = manifests.pod(f"step-worker-{index}", labels, manifests.owner_reference(job, controller=True))
    pod["metadata"]["namespace"] = "default"
    return pod | {"status": status or manifests.pod_status("Succeeded")}


def leader_of(job: dict[str, Any], created: str, message: str | None, **meta: Any) -> PodView:
    """A state of the leader's pod, which has ended with 0 unless its termination message is None."""
    terminated = {"exitCode": 0, "finishedAt": "2026-01-01T00:00:05Z", "message": message}
    state = {"running": {}} if message is None else {"terminated": terminated}
    phase = "Running" if message is None else "Succeeded"
    pod = replica_of(job, 0, phase=phase, containerStatuses=[{"name": "tensorflow", "state": state}])
    pod["metadata"] |= {"uid": created, "creationTimestamp": created, **meta}
    return decode_pod_view(msgspec.json.encode(pod))


FIRST, SECOND = "2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z"
TAKEN = {"deletionTimestamp": "2026-01-01T00:00:34Z", "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("states", "output"),
    [
        ([(FIRST, SAID, {})], SAID),
        ([(FIRST, SAID, {"deletionTimestamp": "2026-01-01T00:00:05Z"})], SAID),
        ([(FIRST, "", TAKEN), (SECOND, SAID, {})], SAID),
        ([(SECOND, SAID, {}), (FIRST, "", TAKEN)], SAID),
        ([(FIRST, None, {}), (FIRST, SAID, {}), (FIRST, None, {})], SAID),
        ([(FIRST, "", TAKEN), (SECOND, None, {})], None),
    ],
    ids=["it ended", "cleaned up in the second of its end", "made anew", "seen late", "in any order", "end unseen"],
)
def test_the_output_of_a_job_is_that_of_the_last_pod_of_its_leader(
    states: list[tuple[str, str | None, dict[str, Any]]], output: str | None, tmp_path: Path
) -> None:
    """A pod of the leader that was taken away has ended with 0, too: without a report it would hide a later one's."""
    api = _Api()
    job = api.put(TFJOBS, job_of(1))
    api.mute("pods")
    wait = wait_for(api, job, tmp_path, log=lambda _: None)
    try:
        for created, message, meta in states:
            wait._pod_seen(leader_of(job, created, message, **meta))
        if output is None:
            with pytest.raises(PermanentFailure, match="its chief is gone"):
                wait.seen(decode_tfjob(msgspec.json.encode(job)))
        else:
            end = wait.seen(decode_tfjob(msgspec.json.encode(job)))
            assert (end.exit_code, end.output) == (0, output.encode())
    finally:
        wait.finish()


def test_a_replica_whose_beginning_the_watch_has_not_told_by_the_jobs_end_has_its_log_forwarded(tmp_path: Path) -> None:
    api, lines = _Api(), list[str]()
    job = api.put(TFJOBS, job_of(2))
    api.mute("pods")
    wait = wait_for(api, job, tmp_path, log=lines.append, tmp_path="/shared")
    for index in range(2):
        api.put(PODS, replica_of(job, index))
    end = wait.seen(decode_tfjob(msgspec.json.encode(job)))
    wait.finish()
    assert end.exit_code == 0
    assert sorted(lines) == ["[worker-0] step-worker-0", "[worker-1] step-worker-1"]
