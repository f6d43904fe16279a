import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.unit.local.node.pods import container, manifest, python, view
from tfoperator.api.replicas.process_variables import ProcessVariables
from tfoperator.local.identity import identify
from tfoperator.local.node.log_store import LogStore
from tfoperator.local.runtime.log_files import LogRequest
from tfoperator.local.runtime.process.cleanup.records import kill_recorded
from tfoperator.local.runtime.process.runtime import ProcessRuntime
from tfoperator.local.runtime.protocol import ContainerStart, LaunchError, Mount


class Bench:
    """A runtime with everything that a launch needs."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.work_dir = root / "work"
        self.work_dir.mkdir()
        environ = {**os.environ, "TF_CONFIG": "not yours", "PROCESS_ID": "7", "INHERITED": "yes"}
        self.runtime = ProcessRuntime(records=root / "records", work_dir=self.work_dir, environ=environ, **options)
        self.records = root / "records"
        self.logs = LogStore(root / "logs")
        self.codes: queue.Queue[int] = queue.Queue()
        self.warnings: list[str] = []
        self.runtime.start()

    def launch(
        self, command: list[str], env: dict[str, str] | None = None, mounts: tuple[Mount, ...] = (), **fields: Any
    ) -> Any:
        pod = view(manifest("p", container(command=command, **fields)))
        run = ContainerStart(
            pod=pod,
            container=pod.spec.containers[0],
            command=tuple(command),
            environment=env or {},
            mounts=mounts,
            log=self.logs.open("ns", "p", "tensorflow"),
            services=frozenset({("ns", "svc")}),
        )
        self.pod = pod
        self.runtime.reserve(pod, mounts)
        return self.runtime.launch(run, self.codes.put, lambda reason, message: self.warnings.append(reason))

    def output(self) -> str:
        return b"".join(self.logs.read(LogRequest("ns", "p", "tensorflow"))).decode()

    def run(self, *args: Any, **kwargs: Any) -> str:
        self.launch(*args, **kwargs)
        assert self.codes.get(timeout=60) == 0
        return self.output()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.runtime.stop()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(3)", 3),
        ("raise SystemExit(138)", 138),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.kill(os.getpid(), 15)", 143),
    ],
)
def test_exit_codes_are_those_of_containers(bench: Bench, code: str, expected: int) -> None:
    bench.launch(python(code))
    assert bench.codes.get(timeout=60) == expected


def test_a_container_has_its_own_environment_and_python_on_top_of_the_machines_and_its_output_is_its_log(
    bench: Bench,
) -> None:
    code = "import os, json, sys; print(json.dumps({**os.environ, 'ARGUMENT': sys.argv[1]}))"
    environment = json.loads(bench.run([*python(code), "--peer=svc:80"], {"MINE": "1", "PEER": "svc.ns.svc:2222"}))
    assert environment["MINE"] == "1"
    assert environment["INHERITED"] == "yes"
    assert environment["HOSTNAME"] == "p"
    assert not {"TF_CONFIG", "PROCESS_ID"} & set(environment)
    assert environment["PYTHONUNBUFFERED"] == "1"
    assert environment["PEER"] == f"127.0.0.1:{bench.runtime.network.port('ns', 'svc', 2222)}"
    assert environment["ARGUMENT"] == f"--peer=127.0.0.1:{bench.runtime.network.port('ns', 'svc', 80)}"
    assert bench.run(["sh", "-c", "echo one; echo two >&2; echo three"]) == "one\ntwo\nthree\n"
    output = bench.run(["python", "-c", "import sys; print(sys.executable)"])
    assert output.strip() == str(Path(sys.executable).parent / "python")


def test_the_coordinator_of_jax_listens_on_loopback_at_the_address_that_the_processes_know(bench: Bench) -> None:
    code = python("import os, json; print(json.dumps(dict(os.environ)))")
    given = ProcessVariables(["svc.ns.svc:2222", "other.ns.svc:2222"]).of_process(1)
    environment = json.loads(bench.run(code, given))
    port, other = (bench.runtime.network.port("ns", name, 2222) for name in ("svc", "other"))
    address = f"127.0.0.1:{port}"
    assert environment["JAX_COORDINATOR_ADDRESS"] == environment["JAX_COORDINATOR_BIND_ADDRESS"] == address
    assert (environment["COORDINATOR_ADDRESS"], environment["COORDINATOR_PORT"]) == ("127.0.0.1", str(port))
    assert environment["KERAS_DISTRIBUTION_JOB_ADDRESSES"] == f"{address},127.0.0.1:{other}"
    own = json.loads(bench.run(code, {**given, "JAX_COORDINATOR_BIND_ADDRESS": "[::]:1234"}))
    assert own["JAX_COORDINATOR_BIND_ADDRESS"] == "[::]:1234"
    elsewhere = json.loads(bench.run(code, {"JAX_COORDINATOR_ADDRESS": "10.0.0.1:2222"}))
    assert "JAX_COORDINATOR_BIND_ADDRESS" not in elsewhere


def test_a_container_starts_in_its_working_directory_if_there_is_one_and_there_a_relative_program_is_looked_up(
    bench: Bench,
) -> None:
    (bench.work_dir / "sub").mkdir()
    assert bench.run(["pwd"]).strip() == str(bench.work_dir)
    assert bench.run(["pwd"], workingDir="sub").strip() == str(bench.work_dir / "sub")
    assert not bench.warnings
    assert bench.run(["pwd"], workingDir="/no/such/dir").strip() == str(bench.work_dir)
    assert bench.warnings == ["WorkingDirMissing"]
    script = bench.work_dir / "hello"
    script.write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(LaunchError, match="not executable") as error:
        bench.launch(["./hello"])
    assert error.value.exit_code == 126
    script.chmod(0o755)
    assert bench.run(["./hello"]) == "hello\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([], "container 'tensorflow' has no command.*image 'none'"),
        (["no-such-program"], "'no-such-program' not found on PATH"),
        (["./no-such"], "'./no-such' does not exist"),
        (["echo", "a\0b"], "can't start 'echo'"),
    ],
)
def test_what_cannot_be_started_says_why(bench: Bench, command: list[str], words: str) -> None:
    with pytest.raises(LaunchError, match=words) as error:
        bench.launch(command)
    assert error.value.exit_code == 127


_DAEMON = "import subprocess as s; print(s.Popen(['sleep', '60'], start_new_session=True{}).pid, flush=True)"


def test_what_a_container_started_ends_with_it_or_with_a_stop_but_leaves_what_gives_up_the_containers_mark(
    bench: Bench,
) -> None:
    pid = int(bench.run(["sh", "-c", "sleep 60 & echo $!"]))
    eventually(lambda: identify(pid) is None)
    pid = int(bench.run(python(_DAEMON.format(""))))
    assert identify(pid) is None  # before the runtime reports the container's end
    pid = int(bench.run(python(_DAEMON.format(", env={}"))))
    process = bench.launch(python("import time; time.sleep(60)"))
    bench.runtime.stop()
    assert bench.codes.get(timeout=60) == 137
    assert identify(process.pid) is None
    assert not bench.records.exists()
    assert identify(pid) is not None
    os.kill(pid, signal.SIGKILL)


def test_a_daemon_of_one_container_outlives_another_one(bench: Bench) -> None:
    first = bench.launch(python(_DAEMON.format("") + "; import time; time.sleep(60)"))
    eventually(lambda: bench.output().endswith("\n"))
    daemon = int(bench.output())
    bench.launch(["true"])
    assert bench.codes.get(timeout=60) == 0
    assert identify(daemon) is not None
    first.kill()
    assert bench.codes.get(timeout=60) == 137
    assert identify(daemon) is None


def test_terminate_asks_and_kill_does_not(bench: Bench) -> None:
    # Not print() in the handler: it may come while print() is at work, which refuses to be called again in its middle.
    code = "import os, signal, time; signal.signal(15, lambda *_: os.write(1, b'asked')); print('up', flush=True)\n"
    code += "while True: time.sleep(0.05)"
    process = bench.launch(python(code))
    eventually(lambda: "up" in bench.output())
    process.terminate()
    eventually(lambda: "asked" in bench.output())
    assert bench.codes.empty()
    process.kill()
    assert bench.codes.get(timeout=60) == 137
    process.kill()  # does nothing: the id may belong to another process by now


def test_groups_left_by_a_crash_are_killed_by_their_record(bench: Bench, tmp_path: Path) -> None:
    process = bench.launch(python("import time; time.sleep(60)"))
    stranger = subprocess.Popen(python("import time; time.sleep(60)"), start_new_session=True)
    try:
        (bench.records / "0.json").write_text(json.dumps({"pid": stranger.pid, "started": "0"}))
        (bench.records / "1.json").write_text("{broken")
        assert kill_recorded(bench.records) == ["ns/p/tensorflow"]
        assert bench.codes.get(timeout=60) == 137
        assert identify(process.pid) is None
        assert stranger.poll() is None
    finally:
        stranger.send_signal(signal.SIGKILL)
        stranger.wait()
