from typing import Any

import msgspec
import pytest

from tfoperator.api.v1.types import TFJob
from tfoperator.kube import Pod
from tfoperator.sdk.states import container_status, has_started, replica_state, waiting_reason


def job(*conditions: tuple[str, str], **metadata: Any) -> TFJob:
    entries = [{"type": kind, "status": status} for kind, status in conditions]
    return msgspec.convert({"metadata": metadata, "status": {"conditions": entries}}, TFJob)


def pod(*containers: dict[str, Any], **status: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p"}, "status": {"containerStatuses": containers, **status}}, Pod)


def waits(reason: str, **more: str) -> dict[str, Any]:
    return {"name": "a", "state": {"waiting": {"reason": reason, **more}}}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (
            pod(waits("ImagePullBackOff", message="no")),
            'container a: ImagePullBackOff: its image can\'t be pulled ("no"). Next: to see the '
            "kubelet's report: kubectl describe pod",
        ),
        (pod(waits("ContainerCreating")), ""),
        (pod(conditions=[UNSCHEDULABLE]), "Unschedulable: 0/3"),
        (pod(phase="Failed", reason="Evicted"), "Evicted"),
        (pod(phase="Running", reason="x"), ""),
        (
            pod(initContainerStatuses=[waits("CrashLoopBackOff")]),
            "init container a: CrashLoopBackOff. Next: read the log of the container: kubectl logs POD -c a --previous",
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
