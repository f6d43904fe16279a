from typing import Any

import msgspec
import pytest

from tfoperator.api.v1.types import TFJob
from tfoperator.kube import Pod
from tfoperator.sdk.states import container_status, has_started, job_state, replica_state, troubles, waiting_reason


def job(*conditions: tuple[str, str], **metadata: Any) -> TFJob:
    found = [{"type": kind, "status": status} for kind, status in conditions]
    return msgspec.convert({"metadata": metadata, "status": {"conditions": found}}, TFJob)


def pod(*containers: dict[str, Any], **status: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "status": {"containerStatuses": containers, **status}}, Pod)


def waits(reason: str, **more: str) -> dict[str, Any]:
    return {"name": "a", "state": {"waiting": {"reason": reason, **more}}}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (job(), "Pending"),
        (job(("Created", "True")), "Created"),
        (job(("Created", "True"), ("Running", "True"), ("Ready", "True")), "Running"),
        (job(("Running", "False"), ("Restarting", "True")), "Restarting"),
        (job(("Running", "False"), ("Suspended", "True"), ("Created", "True")), "Suspended"),
        (job(("Suspended", "False"), ("Running", "True")), "Running"),
        (job(("Running", "False"), ("Succeeded", "True")), "Succeeded"),
        (job(("Running", "True"), deletionTimestamp="2026-01-01T00:00:00Z"), "Terminating"),
    ],
)
def test_a_job_is_in_the_state_that_weighs_most(seen: TFJob, state: str) -> None:
    assert job_state(seen) == state


def ended(kind: str, reason: str) -> TFJob:
    conditions = [{"type": "Running", "status": "False"}, {"type": kind, "status": "True", "reason": reason}]
    return msgspec.convert({"metadata": {}, "status": {"conditions": conditions}}, TFJob)


@pytest.mark.parametrize(
    ("kind", "reason", "state"),
    [
        ("Failed", "RunTimedOut", "TimedOut"),
        ("Failed", "RunInterrupted", "Interrupted"),
        ("Failed", "RunDied", "Died"),
        ("Failed", "TFJobFailed", "Failed"),
        ("Succeeded", "RunTimedOut", "Succeeded"),
    ],
)
def test_a_job_that_ended_with_its_run_is_in_the_state_of_the_run(kind: str, reason: str, state: str) -> None:
    assert job_state(ended(kind, reason)) == state


@pytest.mark.parametrize(
    ("status", "message", "found"),
    [
        ("True", "TFJob a/b is running. 0/1 replicas ready; Worker-0 waits: CrashLoopBackOff: exit code 1.", True),
        ("True", "TFJob a/b is running. 1/2 replicas ready; Worker-0 waits: ErrImagePull.", False),
        ("True", "TFJob CrashLoopBackOff/b is running.", False),
        ("False", "0/1 replicas ready; Worker-0 waits: CrashLoopBackOff: exit code 1.", False),
    ],
)
def test_a_job_with_a_replica_in_a_crash_loop_does_not_just_run(status: str, message: str, found: bool) -> None:
    conditions = [{"type": "Running", "status": status, "message": message}, {"type": "Stalled", "status": "True"}]
    seen = msgspec.convert({"metadata": {}, "status": {"conditions": conditions}}, TFJob)
    assert troubles(seen) == ["Stalled"] + ["CrashLoopBackOff"] * found


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (
            pod(waits("ImagePullBackOff", message="no")),
            'container a: ImagePullBackOff: its image can\'t be pulled ("no"). Next: look with kubectl describe pod at '
            "what the kubelet reports",
        ),
        (pod(waits("ContainerCreating")), ""),
        (pod(conditions=[UNSCHEDULABLE]), "Unschedulable: 0/3"),
        (pod(phase="Failed", reason="Evicted"), "Evicted"),
        (pod(phase="Running", reason="x"), ""),
        (
            pod(initContainerStatuses=[waits("CrashLoopBackOff")]),
            "init container a: CrashLoopBackOff. Next: look into its log: kubectl logs POD -c a --previous",
        ),
    ],
)
def test_why_a_pod_does_not_run(seen: Pod, reason: str) -> None:
    assert waiting_reason(seen) == reason


def test_a_failing_init_container_names_the_state_and_the_container_is_tensorflow_unless_another_is_named() -> None:
    waiting = pod(waits("PodInitializing"), initContainerStatuses=[waits("CrashLoopBackOff")])
    assert replica_state(waiting) == "CrashLoopBackOff"
    seen = pod({"name": "proxy"}, {"name": "tensorflow"})
    names = [status.name for name in ("", "proxy") if (status := container_status(seen, name)) is not None]
    assert names == ["tensorflow", "proxy"]
    assert container_status(seen, "other") is None
    only = container_status(pod({"name": "main"}))
    assert only.name == "main"


@pytest.mark.parametrize(
    ("state", "last", "started"),
    [
        (None, None, False),
        ({"waiting": {"reason": "ContainerCreating"}}, None, False),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {"terminated": {"exitCode": 1}}, True),
        ({"running": {}}, None, True),
        ({"terminated": {"exitCode": 0}}, None, True),
    ],
)
def test_a_container_has_a_log_once_it_has_started(state: Any, last: Any, started: bool) -> None:
    assert has_started(container_status(pod({"name": "a", "state": state, "lastState": last}))) is started
