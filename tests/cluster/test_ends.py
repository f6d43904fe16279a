"""docs/ends.md: what a job counts at its end, and what runs a minute later, on a node; the Go operator beside it.

Each job is a worker, which has a second container, and a parameter server, which serves for ever. All end together.
"""

import time
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.in_cluster import InCluster, shell_job

pytestmark = pytest.mark.timeout(900)

Json = dict[str, Any]
Case = tuple[str, str, str]
"""A policy, how the job ends, and the sort of its sidecar."""

PAGE = Path(__file__).parents[2] / "docs/ends.md"
MINUTE = 60.0
"""Seconds from the end until everything has come to rest: a restart takes ten, a stop a few; on a busy machine more."""

FOR_EVER = "trap 'exit 0' TERM; sleep 100000 & wait"
ENDS = {"success": "exit 0", "failure": "exit 3", "deadline": FOR_EVER, "backoff limit": "exit 1"}
SIDECARS = ("native", "plain", "failing")
THEIR_POLICIES = ("None", "Running", "All")
RUNS = "goes on; worker 1/0/0 runs; PS 1/0/0 runs"


def expected() -> Iterable[tuple[Case, str, str]]:
    """For each case of the page what becomes of it here, and with the Go operator, empty where that has none."""
    for line in PAGE.read_text().splitlines():
        if line.startswith(("| `", "| not set")):
            policy, end, ours, *theirs = (cell.strip(" `") for cell in line.strip("|").split("|"))
            for number, sidecar in enumerate(SIDECARS):
                yield (policy, end, sidecar), ours, theirs[number] if policy in THEIR_POLICIES else ""


def job_of(case: Case, gate: Path) -> Json:
    """A job whose worker begins to end when there is a file `open` in the gate."""
    policy, end, sidecar = case
    limits = {"backoffLimit": 1} if end == "backoff limit" else {}
    clean = {"cleanPodPolicy": policy} if policy in THEIR_POLICIES else {}
    waits = f"until [ -e {gate}/open ]; do sleep 0.3; done; "
    job = shell_job(
        name_of(case), waits + ENDS[end], restart_policy="OnFailure" if limits else "Never", runPolicy=clean | limits
    )
    replicas = job["spec"]["tfReplicaSpecs"]
    replicas["PS"] = shell_job("ps", FOR_EVER)["spec"]["tfReplicaSpecs"]["Worker"]
    pod = replicas["Worker"]["template"]["spec"]
    [main] = pod["containers"]
    main["volumeMounts"] = [{"name": "gate", "mountPath": str(gate)}]
    script = f"{waits}exit 2" if sidecar == "failing" else FOR_EVER
    beside = {**main, "name": "sidecar", "command": ["sh", "-c", script]}
    if sidecar == "native":
        pod["initContainers"] = [{**beside, "restartPolicy": "Always"}]
    else:
        pod["containers"].append(beside)
    pod["volumes"] = [{"name": "gate", "hostPath": {"path": str(gate)}}]
    return job


def name_of(case: Case) -> str:
    return "-".join(case).replace(" ", "-").lower()


def seen(namespace: InCluster) -> Mapping[str, str]:
    """Return the state of each job, in the words of the page."""
    pods = {pod["metadata"]["name"]: pod["status"] for pod in namespace.list("pods")}
    states = {}
    for job in namespace.list("tfjobs"):
        name, status = job["metadata"]["name"], job.get("status", {})
        true = {condition["type"] for condition in status.get("conditions", ()) if condition["status"] == "True"}
        replicas = (
            f"{word} {counts(status, kind)} {rest(pods.get(f'{name}-{kind.lower()}-0'))}"
            for word, kind in (("worker", "Worker"), ("PS", "PS"))
        )
        states[name] = "; ".join((next(iter(true & {"Succeeded", "Failed"}), "goes on"), *replicas))
    return states


def counts(status: Json, kind: str) -> str:
    counters = status.get("replicaStatuses", {}).get(kind, {})
    return "/".join(str(counters.get(name, 0)) for name in ("active", "succeeded", "failed"))


def rest(pod: Json | None) -> str:
    """Return the rest of a pod: its program runs, or only the other container does, or nothing."""
    if pod is None:
        return "deleted"
    every = [*pod.get("containerStatuses", ()), *pod.get("initContainerStatuses", ())]
    running = {container["name"] for container in every if "running" in container["state"]}
    return "runs" if "tensorflow" in running else "sidecar runs" if running else "ended"


def try_cases(namespace: InCluster, gate: Path, wanted: Mapping[Case, str]) -> None:
    """Let the jobs of these cases end, and compare the state a minute later with the wanted state."""
    jobs = [job_of(case, gate) for case in wanted]
    namespace.apply(*jobs)

    def every(is_now: Mapping[str, str]) -> bool:
        states = seen(namespace)
        wrong = [f"{name}: {states.get(name)}, not {text}" for name, text in is_now.items() if states.get(name) != text]
        assert not wrong, "\n".join(wrong)
        return True

    eventually(lambda: every(dict.fromkeys(map(name_of, wanted), RUNS)), within=400, every=2, what="every program runs")
    (gate / "open").touch()
    for job in jobs:
        if "deadline" in job["metadata"]["name"]:
            job["spec"]["runPolicy"]["activeDeadlineSeconds"] = 1
    namespace.apply(*jobs)
    opened = time.monotonic()
    ends = {name_of(case): text for case, text in wanted.items()}
    eventually(
        lambda: time.monotonic() - opened >= MINUTE and every(ends), within=3 * MINUTE, every=2, what="all is at rest"
    )


def test_every_case_of_the_page_is_tried() -> None:
    cases = [case for case, _, _ in expected()]
    assert cases == list(product(("None", "not set", "Running", "All"), ENDS, SIDECARS))


def test_what_is_left_of_a_job_does_not_depend_on_its_sidecars(namespace: InCluster, tmp_path: Path) -> None:
    try_cases(namespace, tmp_path, {case: ours for case, ours, _ in expected()})


@pytest.mark.usefixtures("peer")
def test_what_the_go_operator_leaves(namespace: InCluster, tmp_path: Path) -> None:
    try_cases(namespace, tmp_path, {case: theirs for case, _, theirs in expected() if theirs})
