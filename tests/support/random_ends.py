"""Ends of a training at random moments, announced or not, and how many steps each has cost."""

import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests.support import manifests
from tests.support.eventually import eventually

Json = dict[str, Any]

PROGRAM = Path(__file__).with_name("saving_program.py")

EVERY = 50
"""Steps between two saves of the training."""
LIMIT = 120.0


class Training:
    """A job of two workers, each of which saves for itself, and what a person does to it."""

    def __init__(self, kubectl: Callable[..., str], namespace: str, folder: Path, name: str) -> None:
        self.kubectl, self.folder, self.name = kubectl, folder / name, name
        self._namespace = namespace
        self.folder.mkdir()
        self.folder.chmod(0o777)

    def start(self, container: Json, **pod: Any) -> None:
        """Submit it; its container has `python`, the folder and the program where this machine has them."""
        command = ["python", str(PROGRAM), str(self.folder), str(EVERY)]
        trains = {"name": "tensorflow", "command": command, **container}
        template = {"spec": {"terminationGracePeriodSeconds": 20, "containers": [trains], **pod}}
        worker = {"replicas": 2, "restartPolicy": "ExitCode", "template": template}
        policy = {"enableDynamicWorker": True, "successPolicy": "AllWorkers"}
        job = manifests.job(self.name, {"Worker": worker}, **policy)
        self.kubectl("create", "-f", "-", stdin=json.dumps(job))

    def starts(self, worker: int) -> list[tuple[int, int]]:
        """Return for each start the step after which it began, and the last step that it did."""
        starts: list[tuple[int, int]] = []
        for line in self._notes(worker):
            if line.startswith("start "):
                starts.append((int(line[6:]), int(line[6:])))
            elif starts:
                starts[-1] = starts[-1][0], int(line)
        return starts

    def cost_of(self, end: str, worker: int, moment: int) -> int:
        """Once so many steps are done, end the training this way; return the steps that it has to do again."""
        before = self.starts(worker)
        eventually(lambda: self.starts(worker) != before, within=LIMIT, every=0.02, what=f"worker {worker} trains")
        runs = len(self.starts(worker))
        self._wait_steps(worker, runs, moment)
        getattr(self, f"_{end}")(worker)
        self._wait_steps(worker, runs + 1, 1)
        *_, (_, done), (began, _) = self.starts(worker)[: runs + 1]
        return done - began

    def _notes(self, worker: int) -> list[str]:
        file = self.folder / f"worker-{worker}"
        return file.read_text().split("\n")[:-1] if file.exists() else []  # the last line may not be complete

    def _wait_steps(self, worker: int, runs: int, steps: int) -> None:
        def done() -> bool:
            starts = self.starts(worker)
            return len(starts) >= runs and starts[-1][1] - starts[-1][0] >= steps

        eventually(done, within=LIMIT, every=0.02, what=f"{self.name}: {steps} steps of run {runs} of worker {worker}")

    def _patch(self, spec: Json) -> None:
        self.kubectl("patch", "tfjob", self.name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def _pod_is_gone(self, worker: int) -> None:
        pod = f"{self.name}-worker-{worker}"
        self.kubectl("wait", "--for=delete", f"pod/{pod}", f"--timeout={LIMIT:.0f}s")

    def _delete(self, worker: int) -> None:
        self.kubectl("delete", "pod", f"{self.name}-worker-{worker}", "--wait=false")

    def _evict(self, worker: int) -> None:
        pod = f"{self.name}-worker-{worker}"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/eviction"
        self.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    def _suspend(self, worker: int) -> None:
        self._patch({"runPolicy": {"suspend": True}})
        for each in (worker, 1 - worker):
            self._pod_is_gone(each)
        self._patch({"runPolicy": {"suspend": False}})

    def _scale(self, worker: int) -> None:
        assert worker == 1, "the last worker leaves"
        self._patch({"tfReplicaSpecs": {"Worker": {"replicas": 1}}})
        self._pod_is_gone(worker)
        self._patch({"tfReplicaSpecs": {"Worker": {"replicas": 2}}})

    def _drain(self, worker: int) -> None:
        del worker
        [node] = self.kubectl("get", "nodes", "-o", "name").split()
        node = node.removeprefix("node/")
        selector = f"--pod-selector=training.kubeflow.org/job-name={self.name}"
        self.kubectl("drain", node, selector, "--ignore-daemonsets", "--force", "--delete-emptydir-data")
        self.kubectl("uncordon", node)

    def _kill(self, worker: int) -> None:
        """Without a word, as where power fails."""
        [process] = [candidate for candidate in psutil.process_iter() if self._is_program(candidate, worker)]
        process.kill()

    def _is_program(self, process: psutil.Process, worker: int) -> bool:
        try:
            is_ours = process.cmdline()[1:] == [str(PROGRAM), str(self.folder), str(EVERY)]
            return is_ours and bool(json.loads(process.environ()["TF_CONFIG"])["task"]["index"] == worker)
        except psutil.NoSuchProcess:
            return False


def random_ends(begin: Callable[[str], Training], kinds: Sequence[str], count: int, seed: int) -> dict[str, list[int]]:
    """The cost of so many ends, by their kind. Each comes after up to two intervals of saving.

    Each ten have a job of their own: a job that fails again and again is started again ever later.
    """
    draw = random.Random(seed)
    costs: dict[str, list[int]] = {kind: [] for kind in kinds}
    for first in range(0, count, 10):
        training = begin(f"trains-{first}")
        for _ in range(min(10, count - first)):
            kind = draw.choice(kinds)
            worker = 1 if kind == "scale" else draw.randrange(2)
            costs[kind].append(training.cost_of(kind, worker, draw.randrange(1, 2 * EVERY)))
        training.kubectl("delete", "tfjob", training.name)
    return costs


def check(costs: dict[str, list[int]], count: int) -> None:
    """Print a line for each kind: what was announced costs no step, and a kill one interval at most."""
    for kind, lost in costs.items():
        text = f"{kind}: {len(lost)} ends, {sum(map(bool, lost))} of them lost steps, {max(lost, default=0)} at most"
        print(text, file=sys.stderr)
    assert sum(map(len, costs.values())) == count
    assert {steps for kind, lost in costs.items() if kind != "kill" for steps in lost} <= {0}
    assert max(costs["kill"], default=0) <= EVERY
