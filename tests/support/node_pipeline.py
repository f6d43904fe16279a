"""A pipeline's runner as a Job on a node, by examples/pipeline/runner.yaml, and what its steps note of themselves."""

import json
import os
import signal
from collections import Counter
from pathlib import Path

from tests.support.eventually import eventually, eventually_holds
from tests.support.in_cluster import LIMIT, InCluster, Json, examples, packages_volume, process_of, volume_for

RUN_LABEL = "batch.kubernetes.io/controller-uid"


class NodePipeline:
    """The pipeline of a namespace. `folder` is where its claim is on the node."""

    def __init__(self, namespace: InCluster, folder: Path, image: str) -> None:
        """Apply all that comes before the Job, which `start` makes: once for each run."""
        *before, self._job = examples("pipeline/runner.yaml")
        [claim] = [obj for obj in before if obj["kind"] == "PersistentVolumeClaim"]
        namespace.apply(volume_for(claim, namespace.namespace, folder), *before)
        self._namespace = namespace
        self._image = image
        self.volume = folder / "volume"
        self._notes = self.volume / "notes"  # a part of the claim: steps see no more than they need
        self._notes.mkdir(parents=True, exist_ok=True)
        self._notes.chmod(0o777)
        self.home = str(self.volume / "records")

    def start(self, name: str, *arguments: str) -> str:
        """Start a runner, with more arguments; the id of its run. It has the image and the packages of this machine."""
        job: Json = json.loads(json.dumps(self._job))
        job["metadata"]["name"] = name
        packages, mount = packages_volume()
        pod = job["spec"]["template"]["spec"]
        pod["volumes"].append(packages)
        [container] = pod["containers"]
        container["image"] = self._image
        container["args"] += arguments
        container["volumeMounts"].append(mount)
        self._namespace.apply(job)
        return str(self._namespace.get("job", name)["metadata"]["uid"])

    def runners(self, run: str) -> list[Json]:
        """The pods of the runners of a run, the oldest first."""
        pods = self._namespace.list("pods", "-l", f"{RUN_LABEL}={run}")
        return sorted(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def kill_runner(self, run: str) -> None:
        """Kill the process that runs it, as the kernel does when memory is short."""
        os.kill(process_of(f"--run-id={run}"), signal.SIGKILL)

    def wait_successor(self, run: str, before: Json, *texts: str) -> str:
        """Wait until another pod than one of before has logged all of these texts; its name."""

        def successor_goes_on() -> str:
            successors = [name for name in map(_name, self.runners(run)) if name != _name(before)]
            assert len(successors) == 1, successors
            logged = self._namespace.kubectl.run("logs", successors[0])
            assert [text for text in texts if text not in logged.stdout] == [], logged.stdout + logged.stderr
            return successors[0]

        return eventually(successor_goes_on, within=LIMIT, every=0.3, what=f"a successor of {_name(before)} goes on")

    def wait_complete(self, name: str) -> None:
        """Wait until a Job is complete; if it does not complete, the test fails with its runner's logs."""
        kubectl = self._namespace.kubectl
        waited = kubectl.run(
            "wait", "--for=condition=Complete", f"job/{name}", f"--timeout={LIMIT}s", timeout=LIMIT + 30
        )
        assert waited.returncode == 0, waited.stderr + self._logs(f"-l=job-name={name}")

    def _logs(self, selection: str) -> str:
        """Return the logs of runners."""
        logs = self._namespace.kubectl.run("logs", selection, "--tail=-1", "--prefix")
        return logs.stdout + logs.stderr

    def hold(self, *steps: str) -> None:
        """Have these steps wait, once they have begun, until `let_go`."""
        for step in steps:
            (self._held / step).mkdir(parents=True)

    def let_go(self) -> None:
        """Let the steps that wait go on."""
        for folder in self._held.iterdir():
            folder.rmdir()

    def notes(self, word: str, run: str) -> Counter[str]:
        """Which replicas of which steps of a run have noted that they begin, or that they have ended."""
        journal = self._notes / "journal"
        lines = [line.split() for line in (journal.read_text() if journal.exists() else "").splitlines()]
        return Counter([who for what, who, which in lines if (what, which) == (word, run)])

    def wait_begun(self, run: str, *who: str) -> None:
        """Wait until these replicas have begun."""

        def begun() -> None:
            noted = self.notes("begins", run)
            assert set(who) <= noted.keys(), noted

        try:
            eventually_holds(begun, within=LIMIT, every=0.1, what=f"{', '.join(who)} have begun")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._logs(f'-l={RUN_LABEL}={run}')}") from error

    def show(self, run: str) -> Json:
        """Return the output of `pipeline show` for a run, from a machine with its records."""
        shown = self._namespace.cli.run("pipeline", "show", run, f"--home={self.home}", "-o", "json", code=0)
        return dict(json.loads(shown.stdout))

    @property
    def _held(self) -> Path:
        return self._notes / "held"


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])
