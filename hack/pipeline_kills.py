"""Kills the runner of a pipeline (SIGKILL) at random moments, and checks the steps of the pipeline afterwards.

    python -m hack.pipeline_kills --moments 50 --seed 1 [--store postgresql]

The pipeline has four steps: data, two trainings side by side of which one is a TFJob of two replicas, evaluation. Pods
run as processes of this machine, under a control plane of its own. After a runner was killed, another runner resumes
its run, which may be killed, too, or starts a new run, which stops what the dead runner has left. With `--store
postgresql` the records are in a PostgreSQL server, which is itself killed and started again in every fifth moment: then
a successor waits until the lease of a dead runner has run out, and runs that a new run could not yet know to be dead
are stopped afterwards, as by `tfoperator pipeline stop`.

The check shares no code with the runner. It reads the files of the containers (each container appends a line when it
begins and when it ends), the objects of the API server, and the tables:

- no step of a run came to its end twice, in any replica, and every step of the last run did once
- all pods and TFJobs are gone
- every record can be read, and all executions are recorded as ended
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from hack.postgres import PostgresServer, postgres_server
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube import ListOptions
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.resources import PODS
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
    Home,
    Pipeline,
    PipelineRunner,
    make_spec_class,
    stop_run,
)

IMAGE = "example.invalid/steps@sha256:" + "0" * 64
REPLICAS = 2
STEPS = {"Data": 1, "First": 1, "Second": REPLICAS, "Evaluate": 1}
"""How often each step comes to its end in one run."""
EXECUTIONS = "FROM execution JOIN tfoperator_execution ON tfoperator_execution.execution_id = execution.id"
OUTPUTS = "JOIN event ON event.execution_id = execution.id AND type = 4 JOIN artifact ON artifact.id = artifact_id"
RUNNING, SUCCESSES = 2, (3, 5)  # ML Metadata's numbers
SERVER_KILLS = 5
"""In one of so many moments the server is killed, too."""
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
        words = [f"{{{{ inputs.{input_name}.uri }}}}" for input_name in inputs]
        spec = make_spec_class(
            inputs={input_name: ChannelParameter(type="Data") for input_name in inputs},
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
    url = folder / "records"
    return f"{url.read_text()}?folder={folder}/home" if url.exists() else str(folder / "home")


def run(folder: Path, kubeconfig: str, *, resume: bool) -> None:
    """In the process that may be killed."""
    soon = KubernetesPodPlatformConfig({"terminationGracePeriodSeconds": 2})
    configs: dict[str, list[PlatformConfig]] = {name: [soon] for name in ("Data", "First", "Evaluate")}
    configs["Second"] = [TFJobPlatformConfig({"Worker": REPLICAS}, pod_spec={"terminationGracePeriodSeconds": 2})]
    context = LaunchContext(kube=lambda: Client(load_config(kubeconfig)))
    runner = PipelineRunner(ON_KUBERNETES, configs, home=home_of(folder), context=context, lease_seconds=LEASE)
    runner.run(pipeline(folder), resume="latest" if resume else "")


def child(folder: Path, kubeconfig: str, *, resume: bool) -> int:
    """Run it in a process of its own, forked from this process, which has only one thread. Return its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with (folder / "said").open("a") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
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


def rows(folder: Path, query: str) -> list[Any]:
    """Return rows of the tables of a moment."""
    place = home_of(folder)
    if "://" in place:
        import psycopg

        with psycopg.connect(place.partition("?")[0]) as server:
            return server.execute(query.encode()).fetchall()
    with closing(sqlite3.connect(folder / "home" / "metadata.db")) as db:
        return db.execute(query).fetchall()


def stop_left(folder: Path, kubeconfig: str) -> None:
    """Stop runs whose runners have died, as a user does."""
    if "://" not in home_of(folder):
        return
    context = LaunchContext(kube=lambda: Client(load_config(kubeconfig)))
    with closing(Home(home_of(folder))) as home, home.store() as store:
        for record in store.runs():
            if record.state in ("running", "interrupted"):
                stop_run(home, store, record, context, wait=True)


def known_runs(folder: Path) -> int:
    """How many runs are recorded."""
    if "://" not in home_of(folder) and not (folder / "home" / "metadata.db").exists():
        return 0
    try:
        counts = rows(
            folder, "SELECT count(*) FROM context JOIN type ON type.id = type_id WHERE type.name = 'pipeline_run'"
        )
    except Exception as error:
        if "context" not in str(error):
            raise
        return 0
    return int(counts[0][0])


def problems(folder: Path, kubeconfig: str) -> list[str]:
    """Find everything that is wrong, now that the last runner has succeeded."""
    stop_left(folder, kubeconfig)
    wrong: list[str] = []
    counts = Counter(line for line in (folder / "journal").read_text().splitlines() if line.startswith("end "))
    wrong += [f"came to its end {number} times: {line}" for line, number in counts.items() if number > 1]
    for name, state in rows(folder, f"SELECT step, last_known_state {EXECUTIONS}"):
        if state == RUNNING:
            wrong.append(f"{name} is recorded as running")
    made = f"SELECT step, last_known_state, uri {EXECUTIONS} {OUTPUTS} ORDER BY execution.id"
    last = {name: (state, uri) for name, state, uri in rows(folder, made)}
    for name, replicas in STEPS.items():
        state, uri = last.get(name, (0, ""))
        times = sum(counts[f"end {uri} {index}"] for index in range(replicas))
        if state not in SUCCESSES or times != replicas:
            wrong.append(f"{name} is {state}, and came to its end {times} times of {replicas}")
    records = [path.read_text() for path in (folder / "home" / "runs").rglob("launch.json")]
    records += [text for (text,) in rows(folder, "SELECT record FROM tfoperator_launch")]
    for record in records:
        if (state := json.loads(record)["state"]) not in ("succeeded", "cancelled"):
            wrong.append(f"{record} says {state}")
    return [*wrong, *left_over(kubeconfig)]


def left_over(kubeconfig: str) -> list[str]:
    """Pods and TFJobs that do not go away."""
    end = time.monotonic() + GONE_SECONDS
    with Client(load_config(kubeconfig)) as client:
        while True:
            left = [
                f"{resource.kind} {item['metadata']['name']} is left"
                for resource in (TFJOBS, PODS)
                for item in client.list(resource, "default", json.loads, ListOptions()).items
            ]
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.1)


def begin(folder: Path, server: PostgresServer | None) -> None:
    """Make what a moment needs."""
    folder.mkdir()
    (folder / "journal").touch()
    if server is not None:
        (folder / "records").write_text(server.database(folder.name))


def moment(
    folder: Path, kubeconfig: str, seconds: float, random: Random, server: PostgresServer | None, *, kills: bool
) -> str:
    """Kill a runner, and let others go on until one succeeds; what was done."""
    begin(folder, server)
    done: list[str] = []
    pid = child(folder, kubeconfig, resume=False)
    for number in range(4):
        if number == 3:
            break
        wait = random.uniform(0.0, seconds)
        time.sleep(wait)
        if kills and server is not None:
            server.kill()
            server.start()
            kills = False
            done.append("the server killed")
            time.sleep(random.uniform(0.0, seconds))
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
    completed = subprocess.run(
        [*command, "up"], env=environment, cwd=folder, check=True, capture_output=True, text=True
    )
    words = shlex.split(completed.stdout.removeprefix("export "))
    try:
        yield dict(word.split("=", 1) for word in words)["KUBECONFIG"]
    finally:
        subprocess.run([*command, "down"], env=environment, cwd=folder, check=True, capture_output=True)


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["directory", "postgresql"], default="directory")
    options = parser.parse_args(arguments)
    if options.store == "directory":
        return judged(options.moments, options.seed, None)
    with postgres_server(durable=True) as server:
        os.environ["PGPASSFILE"] = str(server.passfile)
        return judged(options.moments, options.seed, server)


def judged(moments: int, seed: int, server: PostgresServer | None) -> int:
    """Kill at so many moments."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="pipeline-kills-") as name, control_plane(Path(name)) as kubeconfig:
        folder = Path(name)
        begin(folder / "whole", server)
        began = time.monotonic()
        if (code := ended(child(folder / "whole", kubeconfig, resume=False))) != 0:
            print((folder / "whole" / "said").read_text(), f"without a kill it ended with {code}")
            return 1
        seconds = time.monotonic() - began
        wrong = problems(folder / "whole", kubeconfig)
        print(f"without a kill: {seconds:.1f} s; {'; '.join(wrong) or 'all is right'}", flush=True)
        bad += bool(wrong)
        for number in range(moments):
            random = Random(seed * 1000 + number)
            place = folder / f"moment-{number}"
            done = moment(place, kubeconfig, seconds, random, server, kills=number % SERVER_KILLS == 0)
            wrong = problems(place, kubeconfig)
            print(f"{number}: {done}: {'; '.join(wrong) or 'all is right'}", flush=True)
            bad += bool(wrong)
    print(f"{moments} moments, {bad} with problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
