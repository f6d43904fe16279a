from typing import Any

import msgspec
import pytest

from tfoperator.api.replicas.names import ANNOTATION_RESTART_MODE, ANNOTATION_STOPPED
from tfoperator.api.replicas.replica_pods import outlives_training, replica_phase
from tfoperator.kube.views.objects import Pod

RUNS: dict[str, Any] = {"running": {}}


def pod(phase: str, program: dict[str, Any] | int | None, *, proxy: bool = True, **more: str) -> Pod:
    """`program` is the state of the container `tensorflow`, or its exit code; `more`: policy, reason, stopped, mode."""
    state = {"terminated": {"exitCode": program}} if isinstance(program, int) else program
    containers = [{"name": "proxy", "state": RUNS}] if proxy else []
    containers.append({"name": "tensorflow", **({"state": state} if state else {})})
    marks = {ANNOTATION_STOPPED: more.get("stopped"), ANNOTATION_RESTART_MODE: more.get("mode")}
    metadata = {"annotations": {name: value for name, value in marks.items() if value}}
    status = {"phase": phase, "reason": more.get("reason", ""), "containerStatuses": containers}
    spec = {"restartPolicy": more.get("policy", "Never")}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


@pytest.mark.parametrize(
    ("seen", "phase"),
    [
        (pod("Running", 0), "Succeeded"),
        (pod("Running", 3), "Failed"),
        (pod("Running", 0, mode="InPlace"), "Succeeded"),
        (pod("Running", 127, mode="InPlace"), "Failed"),
        (pod("Running", 128, mode="InPlace"), "Running"),
        (pod("Failed", 128, mode="InPlace"), "Failed"),
        (pod("Running", 0, policy="OnFailure"), "Succeeded"),
        (pod("Running", 3, policy="OnFailure"), "Running"),
        (pod("Running", 0, policy="Always"), "Running"),
        (pod("Running", 0, policy=""), "Running"),
        (pod("Running", RUNS), "Running"),
        (pod("Running", {"waiting": {"reason": "CrashLoopBackOff"}}), "Running"),
        (pod("Running", None), "Running"),
        # Its kubelet is about to say what phase it has.
        (pod("Running", 0, proxy=False), "Running"),
        (pod("Pending", 0), "Pending"),
        (pod("Unknown", 0), "Unknown"),
        (pod("Failed", 0), "Succeeded"),
        (pod("Failed", 3), "Failed"),
        (pod("Failed", RUNS), "Failed"),
        (pod("Failed", 0, reason="Evicted"), "Failed"),
        (pod("Failed", 0, reason="DeadlineExceeded"), "Failed"),
        (pod("Failed", 0, reason="DeadlineExceeded", stopped="job-failed"), "Failed"),
        (pod("Failed", 0, reason="DeadlineExceeded", stopped="replica-ended"), "Succeeded"),
        (pod("Succeeded", 0), "Succeeded"),
    ],
)
def test_the_container_tensorflow_decides(seen: Pod, phase: str) -> None:
    assert replica_phase(seen) == phase
    assert outlives_training(seen) is (seen.status.phase == "Running" and phase != "Running")


def test_a_pod_without_a_container_of_that_name_has_its_own_phase() -> None:
    containers = [{"name": name, "state": {"terminated": {"exitCode": 0}}} for name in ("a", "b")]
    other = msgspec.convert({"status": {"phase": "Running", "containerStatuses": containers}}, Pod)
    assert replica_phase(other) == "Running"
