"""Kills the runner of a pipeline (SIGKILL) at random moments, and judges what becomes of its steps.

    python -m hack.pipeline_kills --moments 50 --seed 1 [--store s3]

The pipeline has four steps: data, two trainings side by side of which one is a TFJob of two replicas, evaluation. Pods
run as processes of this machine, under a control plane of its own. Each dead runner is followed by one that resumes
its run, which may be killed, too, or by a new run, which stops what the dead one has left. With `--store s3` the
records are in an S3 server (moto's): then a successor waits until the lease of a dead runner has run out, and what a
new run could not know to be dead yet is stopped afterwards, as by `tfoperator pipeline stop`.

The judge shares no code with the runner. It reads what the containers themselves have written (each appends a line when
it begins and when it ends), the API server's objects, and the SQLite file:

- no step of a run came to its end twice, in any replica, and every step of the last run did once
- no pod and no TFJob is left
- every record can be read, and no execution is recorded as running
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Any

from hack.s3_server import BUCKET, s3_server
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import ListOptions
from tfoperator.kube.client import Client
from tfoperator.kube.config import load_config
from tfoperator.kube.resources import PODS
from tfoperator.launcher import (
    ExecutorContainerSpec,
    KubernetesPodPlatformConfig,
    LaunchContext,
    LauncherError,
    PlatformConfig,
    TFJobPlatformConfig,
)
from tfoperator.pipeline import (
    ON_KUBERNETES,
    BaseComponent,
    ChannelParameter,
    Pipeline,
    PipelineRunner,
    make_spec_class,
    open_home,
    stop_run,
)
from tfoperator.pipeline.objects import is_url, open_objects
from tfoperator.pipeline.store import JournaledDatabase

IMAGE = "example.invalid/steps@sha256:" + "0" * 64
REPLICAS = 2
STEPS = {"Data": 1, "First": 1, "Second": REPLICAS, "Evaluate": 1}
"""How often each step comes to its end in one run."""
GONE_SECONDS = 60.0
LEASE = 3.0  # seconds, for a successor waits for it

SCRIPT = """
out=$1; shift
case $TF_CONFIG in *'"index": 1'*|*'"index":1'*) index=1;; *) index=0;; esac
echo "begin $out $index" >> JOURNAL
cat /dev/null "$@" > /dev/null || exit 9
sleep 0.2
test $index = 1 || { mkdir -p "$(dirname "$out")"; echo done > "$out"; }
echo "end $out $index" >> JOURNAL
while test $index = 0 && test "$TF_CONFIG" && ! grep -q "^end $out 1$" JOURNAL; do sleep 0.02; done
"""


def pipeline(folder: Path) -> Pipeline:
    """The four steps."""
    script = SCRIPT.replace("JOURNAL", str(folder / "journal"))

    def step(name: str, **inputs: Any) -> BaseComponent:
        words = [f"{{{{ inputs.{one}.uri }}}}" for one in inputs]
        spec = make_spec_class(
            inputs={one: ChannelParameter(type="Data") for one in inputs},
            outputs={"data": ChannelParameter(type="Data")},
        )
        container = ExecutorContainerSpec(IMAGE, ["sh", "-c", script, "step"], ["{{ outputs.data.uri }}", *words])
        kind = type(name, (BaseComponent,), {"SPEC_CLASS": spec, "EXECUTOR_SPEC": container})
        made: BaseComponent = kind(**inputs)
        return made

    data = step("Data")
    first, second = (step(name, samples=data.outputs.data) for name in ("First", "Second"))
    evaluate = step("Evaluate", one=first.outputs.data, other=second.outputs.data)
    return Pipeline("kills", str(folder / "root"), [data, first, second, evaluate], enable_cache=True)


def home_of(folder: Path) -> str:
    """Where the records of a moment are."""
    return f"s3://{BUCKET}/{folder.name}" if "AWS_ENDPOINT_URL" in os.environ else str(folder / "home")


def run(folder: Path, kubeconfig: str, *, resume: bool) -> None:
    """In the process that may be killed."""
    soon = KubernetesPodPlatformConfig({"terminationGracePeriodSeconds": 2})
    configs: dict[str, list[PlatformConfig]] = {name: [soon] for name in ("Data", "First", "Evaluate")}
    configs["Second"] = [TFJobPlatformConfig({"Worker": REPLICAS}, pod_spec={"terminationGracePeriodSeconds": 2})]
    context = LaunchContext(kube=lambda: Client(load_config(kubeconfig)))
    runner = PipelineRunner(ON_KUBERNETES, configs, home=home_of(folder), context=context, lease_seconds=LEASE)
    runner.run(pipeline(folder), resume="last" if resume else "")


def child(folder: Path, kubeconfig: str, *, resume: bool) -> int:
    """Run it in a process of its own; this one has no other thread. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with (folder / "said").open("a") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        run(folder, kubeconfig, resume=resume)
        code = 0
    except LauncherError as error:
        print(error, flush=True)
        code = 3
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    """Its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fetched(folder: Path) -> None:
    """Bring records that are in S3 to where they would else be: the metadata as a copy, each launch as it is there."""
    if not is_url(home_of(folder)):
        return
    objects, home = open_objects(home_of(folder)), folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    with tempfile.TemporaryDirectory() as scratch, closing(JournaledDatabase(objects, Path(scratch))):
        shutil.copy(Path(scratch, "metadata.db"), home)
    for key in objects.keys("runs/"):
        if key.endswith("/launch.json") and (stored := objects.get(key)) is not None:
            record = json.loads(stored.data)["data"]
            if record is not None:
                (home / key).parent.mkdir(parents=True)
                (home / key).write_text(json.dumps(record))


def stop_left(folder: Path, kubeconfig: str) -> None:
    """What a user does about runs whose runners have died."""
    if not is_url(home_of(folder)):
        return
    context = LaunchContext(kube=lambda: Client(load_config(kubeconfig)))
    with closing(open_home(home_of(folder))) as home, home.store() as store:
        for one in store.runs():
            if one.state in ("running", "interrupted"):
                stop_run(home, store, one, context, wait=True)


def known_runs(folder: Path) -> int:
    """How many runs are recorded."""
    fetched(folder)
    path = folder / "home" / "metadata.db"
    if not path.exists():
        return 0
    with sqlite3.connect(path) as db:
        try:
            count = db.execute(
                "SELECT count(*) FROM Context JOIN Type ON Type.id = Context.type_id WHERE Type.name = 'run'"
            ).fetchone()[0]
        except sqlite3.OperationalError:  # killed before the tables were made
            return 0
    db.close()
    return int(count)


def problems(folder: Path, kubeconfig: str) -> list[str]:
    """What is wrong, now that the last runner has succeeded."""
    stop_left(folder, kubeconfig)
    fetched(folder)
    found: list[str] = []
    counts = Counter(line for line in (folder / "journal").read_text().splitlines() if line.startswith("end "))
    found += [f"came to its end {number} times: {line}" for line, number in counts.items() if number > 1]
    with sqlite3.connect(folder / "home" / "metadata.db") as db:
        if (said := db.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
            found.append(f"the metadata are damaged: {said}")
        for name, state in db.execute("SELECT name, last_known_state FROM Execution"):
            if state == "RUNNING":
                found.append(f"{name} is recorded as running")
        rows = db.execute(
            "SELECT Execution.name, last_known_state, uri FROM Execution"
            " JOIN Event ON Event.execution_id = Execution.id AND Event.type = 'OUTPUT'"
            " JOIN Artifact ON Artifact.id = Event.artifact_id ORDER BY Execution.id"
        ).fetchall()
    db.close()
    last = {name: (state, uri) for name, state, uri in rows}
    for name, replicas in STEPS.items():
        state, uri = last.get(name, ("missing", ""))
        times = sum(counts[f"end {uri} {index}"] for index in range(replicas))
        if state not in ("COMPLETE", "CACHED") or times != replicas:
            found.append(f"{name} is {state}, and came to its end {times} times of {replicas}")
    for record in (folder / "home" / "runs").rglob("launch.json"):
        try:
            state = json.loads(record.read_bytes())["state"]
        except (ValueError, KeyError) as error:
            found.append(f"{record} can't be read: {error}")
            continue
        if state not in ("succeeded", "cancelled"):
            found.append(f"{record} says {state}")
    return [*found, *left_over(kubeconfig)]


def left_over(kubeconfig: str) -> list[str]:
    """Pods and TFJobs that do not go away."""
    end = time.monotonic() + GONE_SECONDS
    with Client(load_config(kubeconfig)) as client:
        while True:
            there = [
                f"{resource.kind} {one['metadata']['name']} is left"
                for resource in (TFJOBS, PODS)
                for one in client.list(resource, "default", json.loads, ListOptions()).items
            ]
            if not there or time.monotonic() > end:
                return there
            time.sleep(0.1)


def moment(folder: Path, kubeconfig: str, seconds: float, random: Random) -> str:
    """Kill a runner, and let others go on until one succeeds; what was done."""
    folder.mkdir()
    (folder / "journal").touch()
    done: list[str] = []
    pid = child(folder, kubeconfig, resume=False)
    for number in range(4):
        if number == 3:
            break
        wait = random.uniform(0.0, seconds)
        time.sleep(wait)
        os.kill(pid, signal.SIGKILL)
        code = ended(pid)
        if code == 0:
            done.append("had succeeded")
            break
        done.append(f"killed after {wait:.2f} s")
        resume = known_runs(folder) > 0 and random.random() < 0.75
        done.append("resumed" if resume else "new run")
        pid = child(folder, kubeconfig, resume=resume)
        if random.random() < 0.6:
            break
    if done[-1] != "had succeeded" and (code := ended(pid)) != 0:
        raise SystemExit(f"{folder.name} ({', '.join(done)}): the last runner ended with {code}; see {folder / 'said'}")
    return ", ".join(done)


@contextmanager
def control_plane(folder: Path) -> Iterator[str]:
    """`tfoperator local up` with a state of its own; the path of its kubeconfig."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    command = [sys.executable, "-m", "tfoperator.cli", "local"]
    said = subprocess.run([*command, "up"], env=environment, cwd=folder, check=True, capture_output=True, text=True)
    words = shlex.split(said.stdout.removeprefix("export "))
    try:
        yield dict(word.split("=", 1) for word in words)["KUBECONFIG"]
    finally:
        subprocess.run([*command, "down"], env=environment, cwd=folder, check=True, capture_output=True)


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["directory", "s3"], default="directory")
    options = parser.parse_args(arguments)
    server: AbstractContextManager[dict[str, str]] = s3_server() if options.store == "s3" else nullcontext({})
    with server as found:
        os.environ.update(found)
        return judged(options.moments, options.seed)


def judged(moments: int, seed: int) -> int:
    """Kill at so many moments."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="pipeline-kills-") as name, control_plane(Path(name)) as kubeconfig:
        folder = Path(name)
        (folder / "whole").mkdir()
        began = time.monotonic()
        if (code := ended(child(folder / "whole", kubeconfig, resume=False))) != 0:
            print((folder / "whole" / "said").read_text(), f"without a kill it ended with {code}")
            return 1
        seconds = time.monotonic() - began
        found = problems(folder / "whole", kubeconfig)
        print(f"without a kill: {seconds:.1f} s; {'; '.join(found) or 'all is right'}", flush=True)
        bad += bool(found)
        for number in range(moments):
            random = Random(seed * 1000 + number)
            place = folder / f"moment-{number}"
            done = moment(place, kubeconfig, seconds, random)
            found = problems(place, kubeconfig)
            print(f"{number}: {done}: {'; '.join(found) or 'all is right'}", flush=True)
            bad += bool(found)
    print(f"{moments} moments, {bad} with problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
