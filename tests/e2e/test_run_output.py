"""The fate of `tfoperator run` when its output, its terminal or its disk fails it."""

import json
import os
import pty
import re
import signal
import stat
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.test_run_fast import SERVE, cli, pids_in
from tests.support.cli import COMMAND, Cli, replica, tfjob
from tests.support.eventually import eventually
from tfoperator.local.identity import identify

__all__ = ["cli"]

NOTED = f"echo $$$$ > pid-$$$$; {SERVE}"


def shell(cli: Cli, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`$T` in the command is tfoperator."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=cli.folder,
        env={**os.environ, "T": " ".join(COMMAND), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("end", "error"), [("| grep -m 1 serving", "Broken pipe"), ("> /dev/full", "No space left on device")]
)
def test_a_reader_that_has_seen_enough_or_a_full_disk_ends_the_run_in_order(cli: Cli, end: str, error: str) -> None:
    tick = "trap 'echo asked to stop; exit 0' TERM; while true; do echo serving; sleep 0.1; done"
    cli.write(tfjob("long", Worker=replica("sh", "-c", tick)))
    done = shell(cli, f"$T run job.yaml {end}; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == 1
    assert f"can't write to standard output any more ({error}): the job was stopped" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    latest = cli.folder / ".tfoperator/runs/latest"
    log = latest / "logs/default/long-worker-0/tensorflow/0.log"
    assert error != "Broken pipe" or "asked to stop" in log.read_text(), "a full disk is seen before anything runs"
    assert json.loads((latest / "result.json").read_text())["exitCode"] == 1


def test_a_closed_standard_output_does_not_matter_and_what_it_can_not_encode_is_shown_escaped(cli: Cli) -> None:
    cli.write(tfjob("quick", Worker=replica("echo", "h\u00e9")))
    done = shell(cli, "$T run job.yaml >&-")
    assert (done.returncode, done.stderr) == (0, "")
    done = shell(cli, "$T run job.yaml", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert r"[worker-0] h\xe9" in done.stdout


def test_a_terminal_that_is_closed_ends_the_run_in_order(cli: Cli) -> None:
    cli.write(tfjob("long", Worker=replica("sh", "-c", NOTED)))
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover - another program from here on
        os.chdir(cli.folder)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
        os.execv(COMMAND[0], [*COMMAND, "run", "job.yaml"])
    output = b""
    end = time.monotonic() + 120
    while b"serving" not in output and time.monotonic() < end:
        output += os.read(terminal, 4096)
    os.close(terminal)  # the system sends SIGHUP
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
    result = json.loads((cli.folder / ".tfoperator/runs/latest/result.json").read_text())
    assert (result["outcome"], result["exitCode"]) == ("Interrupted", 128 + signal.SIGHUP)
    assert "asked to stop" in Path(cli.folder, result["jobs"][0]["replicas"][0]["logs"][0]).read_text()
    eventually(lambda: [identify(pid) for pid in pids_in(cli)] == [None])


def test_who_ignores_the_end_of_the_terminal_goes_on(cli: Cli) -> None:
    serve = "touch up; until [ -e go ]; do sleep 0.05; done; echo through"
    cli.write(tfjob("long", Worker=replica("sh", "-c", serve)))
    hang_up = "until [ -e up ]; do sleep 0.05; done; kill -HUP $child; touch go; wait $child"
    done = shell(cli, f"trap '' HUP; $T run job.yaml & child=$!; {hang_up}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[worker-0] through" in done.stdout


def test_an_early_interrupt_shows_no_traceback(cli: Cli) -> None:
    cli.write(tfjob("long", Worker=replica("sh", "-c", SERVE)))
    for delay in (0.15, 0.3, 0.45):
        with cli.start("run", "job.yaml") as process:
            with suppress(subprocess.TimeoutExpired):
                process.process.wait(delay)
            process.end(signal.SIGINT)
        # Before our first function runs there is nothing that we could do: that is the interpreter's own traceback,
        # also where it names the path hook by which an editable installation is found.
        ours = re.findall(r'File ".*/tfoperator/(.*\.py)", line \d+, in (.*)', process.output)
        assert set(ours) <= {("cli/__main__.py", "<module>")} or "Fatal Python error" in process.output, process.output
    with cli.start("run", "job.yaml", "--logs-dir", "early") as process:
        eventually(lambda: (cli.folder / "early/tfoperator.log").exists())  # long before the job is created
        assert process.end(signal.SIGINT) == 130
    assert json.loads((cli.folder / "early/result.json").read_text())["outcome"] == "Interrupted"


@pytest.mark.parametrize("existing", [False, True])
def test_what_a_run_keeps_is_closed_to_other_users(cli: Cli, existing: bool) -> None:
    worker = replica("sh", "-c", "cat $TFOPERATOR_MOUNT_KEYS/word; umask", env=[{"name": "A", "value": "s3cret"}])
    pod = worker["template"]["spec"]
    pod["volumes"] = [{"name": "keys", "secret": {"secretName": "keys"}}, {"name": "empty", "emptyDir": {}}]
    pod["containers"][0]["volumeMounts"] = [{"name": name, "mountPath": f"/none/{name}"} for name in ("keys", "empty")]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"word": "s3cret"}}
    file = cli.write(json.dumps(secret), tfjob("quick", Worker=worker))
    out = cli.folder / "out"
    if existing:
        (out / "logs").mkdir(parents=True, mode=0o755)
    where = "--logs-dir out" if existing else ""
    done = shell(cli, f"umask 000; exec $T run --keep {file} {where}")
    assert done.returncode == 0, done.stderr
    assert "[worker-0] s3cret0000" in done.stdout, "the umask of what is run stays"
    run_dir = out if existing else (cli.folder / ".tfoperator/runs/latest").resolve()
    folders = list(run_dir.iterdir()) if existing else [run_dir]
    assert existing or not stat.S_IMODE(run_dir.parent.stat().st_mode) & 0o022
    files = [path for path in run_dir.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"word", "0.log", "default.quick.yaml", "tfoperator.log", "result.json"}
    open_to_others = [path for path in [*folders, *files] if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_to_others == []


def test_a_logs_dir_that_can_not_be_is_explained_and_a_link_is_not_written_through(cli: Cli) -> None:
    (cli.folder / ".tfoperator").mkdir()
    (cli.folder / ".tfoperator/.gitignore").symlink_to(cli.folder / "planted")
    cli.run("run", cli.write(tfjob("quick", Worker=replica("true"))), code=0)
    (cli.folder / "out").mkdir()
    (cli.folder / "out/tfoperator.log").symlink_to(cli.folder / "planted")
    refused = cli.run("run", "job.yaml", "--logs-dir", "out", code=2)
    assert "out/tfoperator.log: Too many levels of symbolic links" in refused.stderr
    assert not (cli.folder / "planted").exists()
    for problem in ("job.yaml: is not a", "job.yaml/below: is not a", "/proc/x: No such file or"):
        refused = cli.run("run", "job.yaml", "--logs-dir", problem.partition(":")[0], code=2)
        assert f"{problem} directory" in refused.stderr
        assert "--logs-dir" in refused.stderr


def test_a_job_that_waits_says_for_what(cli: Cli) -> None:
    from_settings = {"configMapKeyRef": {"name": "settings", "key": "absent"}}
    worker = replica("echo", "hello", env=[{"name": "A", "valueFrom": from_settings}])
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "b"}}
    init = {"name": "prepare", "image": "none", "command": ["echo", "preparing"]}
    worker["template"]["spec"]["initContainers"] = [init]
    with cli.start("run", cli.write(json.dumps(settings), tfjob("waits", Worker=worker))) as process:
        process.until("[waits] Pending: TFJob default/waits does not run yet. 0/1 replicas ready; Worker-0 waits:")
        process.until("'absent'")
        assert process.end(signal.SIGINT) == 130
    assert "worker-0  NeverRan" in process.output
