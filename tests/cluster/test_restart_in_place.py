"""`restartMode: InPlace` on a real node: its kubelet follows the rule, and is faster than recreation."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_other_containers import with_sidecar
from tests.support.eventually import eventually
from tests.support.in_cluster import LIMIT, InCluster, shell_job

Json = dict[str, Any]
MODES = ("InPlace", "Recreate")


def job_of(mode: str, name: str, shared: Path, workers: int) -> Json:
    """Return a job whose workers' first run exits with 130 after a signal, and whose second run ends with 0.

    Each notes the machine's uptime at its starts and at its exit.
    """
    first = "while [ ! -e $f.go ]; do sleep 0.05; done; cat /proc/uptime > $f.end; exit 130"
    second = "while [ ! -e /shared/over ]; do sleep 0.2; done"
    run = f"echo run $(grep -c . $f.starts); if [ -e $f.end ]; then {second}; else {first}; fi"
    job = shell_job(
        name,
        f"f=/shared/$HOSTNAME; cat /proc/uptime >> $f.starts; {run}",
        restart_policy="ExitCode",
        replicas=workers,
        successPolicy="AllWorkers",
        runPolicy={"restartMode": mode},
    )
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["volumes"] = [{"name": "shared", "hostPath": {"path": str(shared)}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "shared", "mountPath": "/shared"}]
    return job


def starts(shared: Path, pod: str) -> list[float]:
    file = shared / f"{pod}.starts"
    return [float(line.split()[0]) for line in file.read_text().splitlines()] if file.exists() else []


def times_until_back(shared: Path, pods: list[str], *, together: bool) -> Iterator[float]:
    """Seconds from the exit of each until it runs again; they exit all at once, or one after the other."""
    for group in [pods] if together else [[pod] for pod in pods]:
        for pod in group:
            (shared / f"{pod}.go").touch()
        for pod in group:
            eventually(lambda pod=pod: len(starts(shared, pod)) == 2, within=LIMIT, every=0.05, what=f"{pod} is back")
            yield starts(shared, pod)[1] - float((shared / f"{pod}.end").read_text().split()[0])


@pytest.mark.parametrize(("workers", "together", "part"), [(4, False, 3 / 4), (8, True, 1 / 2)])
def test_a_container_is_back_in_a_part_of_the_time(
    namespace: InCluster, tmp_path: Path, workers: int, together: bool, part: float
) -> None:
    """A kubelet looks for ended containers once a second, which is most of the time that one takes alone."""
    tmp_path.chmod(0o777)
    seconds: dict[str, list[float]] = {}
    accounts = []
    for mode in MODES:
        job = mode.lower()
        names = [f"{job}-worker-{index}" for index in range(workers)]
        namespace.apply(job_of(mode, job, tmp_path, workers))
        namespace.wait(job, "Ready")
        before = namespace.pod_uids(job)
        seconds[mode] = sorted(times_until_back(tmp_path, names, together=together))

        def counted(job: str = job) -> Json:
            status = namespace.get("tfjob", job)["status"]
            assert (status.get("restarts"), status.get("ready")) == (workers, f"{workers}/{workers}"), status
            return dict(status)

        status = eventually(counted, within=LIMIT, every=0.3, what=f"all of {job} run again")
        assert (namespace.pod_uids(job) == before) == (mode == "InPlace")
        if mode == "InPlace":
            assert namespace.kubectl("logs", names[0]) == "run 2\n"
            assert namespace.kubectl("logs", "--previous", names[0]) == "run 1\n"
        events = {event["reason"] for event in namespace.list("events") if event["involvedObject"]["name"] == job}
        true = {
            condition["type"]: condition["reason"]
            for condition in status["conditions"]
            if condition["status"] == "True"
        }
        accounts.append((events, true, status["replicaStatuses"]["Worker"]["restartCounts"]))
        print(
            f"from exit to running again, {mode}, {together=}: {', '.join(f'{delay:.2f}' for delay in seconds[mode])} s"
        )
    (tmp_path / "over").touch()
    for mode in MODES:
        namespace.wait(mode.lower(), "Succeeded")
    assert accounts[0][1:] == accounts[1][1:]
    assert "RestartedInPlace" in accounts[0][0]
    assert accounts[0][0] - {"RestartedInPlace"} | {"SuccessfulDeletePod", "ExitedWithCode"} == accounts[1][0]
    here, anew = (statistics.median(seconds[mode]) for mode in MODES)
    assert here <= anew * part, seconds


@pytest.mark.parametrize(("code", "verdict", "restarts"), [(130, "Succeeded", 1), (3, "Failed", 0)])
def test_beside_a_sidecar_the_exit_code_decides_too(
    namespace: InCluster, code: int, verdict: str, restarts: int
) -> None:
    script = f"[ ! -e /left/it ] || {{ echo trained; exit 0; }}; touch /left/it; sleep 2; exit {code}"
    job = with_sidecar(shell_job("beside", script, restart_policy="ExitCode", runPolicy={"restartMode": "InPlace"}))
    pod = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    pod["volumes"] = [{"name": "left", "emptyDir": {}}]
    pod["containers"][1]["volumeMounts"] = [{"name": "left", "mountPath": "/left"}]
    namespace.apply(job)
    namespace.wait("beside", verdict)
    assert namespace.get("tfjob", "beside")["status"].get("restarts", 0) == restarts
    made = [event for event in namespace.list("events") if event["reason"] == "SuccessfulCreatePod"]
    assert len(made) == 1, made
