"""Sidecars on a real node: nothing runs on after the program beside them, and each log can be read.

`test_ends` checks the counts and the remains under each policy, also when a limit ends the job.
"""

from typing import Any

from tests.support.eventually import eventually
from tests.support.in_cluster import SHELL_IMAGE, InCluster, shell_job

Json = dict[str, Any]
FOR_EVER = "trap 'exit 0' TERM; echo ships logs; sleep 100000 & wait"
ENDED = 60.0
"""Seconds from a job's end until none of its containers may run any more."""


def with_sidecar(job: Json, script: str = FOR_EVER, *, native: bool = False) -> Json:
    """A job whose workers have a second container, which runs a shell script."""
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    [main] = pod["containers"]
    restarts = {"fieldRef": {"fieldPath": "metadata.annotations['training.kubeflow.org/restarts']"}}
    main["env"] = [{"name": "RESTARTS", "valueFrom": restarts}]
    sidecar = {**main, "name": "sidecar", "image": SHELL_IMAGE, "command": ["sh", "-c", script]}
    if native:
        pod["initContainers"] = [{**sidecar, "restartPolicy": "Always"}]
    else:
        pod["containers"] = [sidecar, main]
    return job


CASES = {
    "never": ("Succeeded", with_sidecar(shell_job("never", "echo trained"))),
    "on-failure": ("Succeeded", with_sidecar(shell_job("on-failure", "echo trained", restart_policy="OnFailure"))),
    "fails": ("Failed", with_sidecar(shell_job("fails", "echo trained; exit 3", restart_policy="ExitCode"))),
    "retries": (
        "Succeeded",
        with_sidecar(shell_job("retries", '[ "$RESTARTS" ] || exit 137; echo trained', restart_policy="ExitCode")),
    ),
    "sidecar-fails": ("Succeeded", with_sidecar(shell_job("sidecar-fails", "sleep 3; echo trained"), "exit 2")),
    "native": ("Succeeded", with_sidecar(shell_job("native", "echo trained"), native=True)),
}


def end_of(namespace: InCluster, pod: str) -> Json:
    """The status of a pod none of whose containers runs any more."""

    def over() -> Json:
        status = namespace.get("pod", pod)["status"]
        assert status["phase"] in ("Succeeded", "Failed"), status
        return dict(status)

    status: Json = eventually(over, within=ENDED, every=0.3, what=f"nothing of {pod} runs")
    return status


def test_a_sidecar_that_never_ends_holds_no_machine_after_its_program_has_ended(namespace: InCluster) -> None:
    namespace.apply(*(job for _, job in CASES.values()))
    for name, (verdict, _) in CASES.items():
        namespace.wait(name, verdict)
        status = end_of(namespace, f"{name}-worker-0")
        worker = namespace.get("tfjob", name)["status"]["replicaStatuses"]["Worker"]
        counts = {"Succeeded": (1, 0), "Failed": (0, 1)}[verdict]
        assert (worker.get("succeeded", 0), worker.get("failed", 0)) == counts, name
        assert worker.get("restarts", 0) == (1 if name == "retries" else 0)
        assert namespace.kubectl("logs", f"{name}-worker-0", "-c", "tensorflow") == "trained\n"
        if name not in ("sidecar-fails", "native"):
            assert status["reason"] == "DeadlineExceeded"
            assert namespace.kubectl("logs", f"{name}-worker-0", "-c", "sidecar") == "ships logs\n"
            annotations = namespace.get("pod", f"{name}-worker-0")["metadata"]["annotations"]
            assert annotations["training.kubeflow.org/stopped"] == "replica-ended"
            namespace.wait_event(name, "SuccessfulStopPod")
    shown = namespace.tfoperator("describe", "fails").stdout
    assert "exited with code 3" in shown
    assert "Failed" in shown
