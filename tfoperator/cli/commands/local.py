"""`tfoperator local up|down|status`: starts and stops a control plane in the background, for kubectl and other clients.

`eval "$(tfoperator local up)"` makes the shell use the control plane: only the line for `eval` goes to standard output,
and all other output goes to standard error.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfoperator.api.v1.types import TFJOBS, decode_tfjob
from tfoperator.cli.program_options import LocalPodOptions
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.terminal.output import ReportFormat, ReportOutput, note, say
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.local.runtime.selection import RuntimeName
from tfoperator.logs.archive.reader import ARCHIVE_VARIABLE

if TYPE_CHECKING:
    from tfoperator.local.daemon.state_directory import DaemonState, StateDirectory

_START_SECONDS = 60.0
_STOP_SECONDS = 90.0  # a pod's grace period is 30 s by default

_StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="Folder for the control plane's files. Default: tfoperator/local in $XDG_STATE_HOME or ~/.local/state.",
        metavar="DIR",
    ),
]


def up(
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the API server; 0 takes a free port.")
    ] = 0,
    pods: LocalPodOptions = LocalPodOptions(),
    detach: Annotated[
        bool,
        typer.Option(
            "--detach/--foreground",
            help="Return when the control plane is ready (--detach), or keep running in the foreground.",
        ),
    ] = True,
    state_dir: _StateDir = None,
) -> None:
    """Start the API server, the operator and the node agent. Processes of jobs start in the current directory."""
    from tfoperator.local.daemon.state_directory import StateDirectory, default_state_directory

    state = StateDirectory(state_dir or default_state_directory())
    running = state.read()
    if running is not None and running.stopping and running.alive:
        note("the control plane is being stopped; waiting until it has ended")
        _await_end(running)
    if running is not None and running.alive:
        note(f"the control plane is already running: {running.url} (pid {running.process.pid})")
        note(_where(running))
        _show_page(state)
        typer.echo(_export(state))
        return
    state.create()
    # Without -P, Python would import modules from the current folder, which another user may have written.
    daemon = [sys.executable, "-P", "-m", "tfoperator.cli.local_daemon"]
    command = [*daemon, str(state.root.resolve()), str(port), pods.runtime]
    if pods.allow_privileged:
        command.append("--allow-privileged")
    if pods.enforce_limits:
        command.append("--enforce-limits")
    if not detach:
        note(f"for kubectl in another shell: {_export(state)}")
        # Replace this process. A child process would get the same Ctrl-C, and this process would not wait for it.
        os.execv(command[0], command)
    running = _started(state, command)
    note(f"the control plane is running: {running.url} (pid {running.process.pid}); its log is {state.log}")
    note(_where(running))
    _show_page(state)
    typer.echo(_export(state))


def _started(state: StateDirectory, command: list[str]) -> DaemonState:
    """Start a control plane, and wait until it is ready.

    If another command starts a control plane at the same time, wait until that control plane is ready. Raises CliError
    if the control plane does not start, or is not ready in time.
    """
    from tfoperator.local.daemon.state_directory import RUNS_ALREADY

    deadline = time.monotonic() + _START_SECONDS
    process = _start(state, command)
    try:
        while time.monotonic() < deadline:
            running = state.read()
            if running is not None and running.alive and not running.stopping:
                return running
            ended = process.poll()
            if ended == RUNS_ALREADY:
                if not state.is_locked():  # the other control plane was ending, or failed to start
                    process = _start(state, command)
            elif ended is not None:
                raise CliError(f"the control plane did not start:\n{_tail(state.log)}", exit_code=EXIT_FAILED)
            time.sleep(0.05)
        raise CliError(
            f"the control plane was not ready after {_START_SECONDS:.0f} s:\n{_tail(state.log)}", exit_code=EXIT_FAILED
        )
    finally:
        control_plane = state.read()
        if control_plane is None or control_plane.process.pid != process.pid:
            process.terminate()
            process.wait()


def _start(state: StateDirectory, command: list[str]) -> subprocess.Popen[bytes]:
    # Append, because the file may be the log of a control plane that started first. The process that gets the lock
    # truncates the file.
    with state.log.open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def down(
    now: Annotated[bool, typer.Option("--now", help="Kill the pods at once, without their grace periods.")] = False,
    state_dir: _StateDir = None,
) -> None:
    """Stop the control plane and all its jobs, or clean up after its crash: end its processes and delete its files."""
    from tfoperator.local.daemon.state_directory import StateDirectory, default_state_directory
    from tfoperator.local.identity import signal_process
    from tfoperator.local.node.volumes import VOLUMES, VolumeManager
    from tfoperator.local.runtime.process.cleanup.records import RECORDS, kill_recorded

    state = StateDirectory(state_dir or default_state_directory())
    control_plane = state.read()
    if control_plane is not None and control_plane.alive:
        signal_process(control_plane.process, signal.SIGTERM)
        if now:
            # Not a second SIGTERM, because the system may merge two equal signals into one.
            signal_process(control_plane.process, signal.SIGINT)
        if not _await_end(control_plane):
            note(f"the control plane has not stopped within {_STOP_SECONDS:.0f} s, so it will be killed")
            signal_process(control_plane.process, signal.SIGKILL)
        note("the control plane has stopped")
    elif control_plane is not None:
        note("the control plane had crashed: its processes and files are removed now")
    else:
        note("no control plane was running")
    for name in kill_recorded(state.run / RECORDS):
        note(f"killed the process {name}, which the control plane had left running")
    if control_plane is not None and control_plane.runtime is RuntimeName.DOCKER:
        for name in _remove_containers():
            note(f"removed the container {name}, which the control plane had left")
    if not state.is_locked():  # else another `local up` has begun meanwhile, and removes the volumes itself
        VolumeManager(state.run / VOLUMES).remove_left_behind()
    state.clear()


def status(
    output: ReportOutput = ReportFormat.TEXT,
    state_dir: _StateDir = None,
) -> None:
    """Show whether a control plane is running, and its jobs. Exit code 1 if it is not running."""
    from tfoperator.local.daemon.state_directory import StateDirectory, default_state_directory

    state = StateDirectory(state_dir or default_state_directory())
    control_plane = state.read()
    report: dict[str, Any] = {
        "running": control_plane is not None and control_plane.alive,
        "stopping": control_plane is not None and control_plane.alive and control_plane.stopping,
        "crashed": False,
        "jobs": [],
    }
    if control_plane is not None and control_plane.alive:
        report |= {
            "url": control_plane.url,
            "pid": control_plane.process.pid,
            "since": control_plane.since.isoformat(timespec="seconds"),
            "kubeconfig": str(state.kubeconfig),
            "workDirectory": control_plane.work_directory,
            "runtime": control_plane.runtime.value,
            "log": str(state.log),
            "page": state.page_link,
            "jobs": [] if control_plane.stopping else _jobs(state.kubeconfig),
        }
    elif control_plane is not None:
        report["crashed"] = True
    if output is ReportFormat.JSON:
        typer.echo(json.dumps(report, indent=2))
    else:
        for line in _lines(report):
            say(line)
    if not report["running"]:
        raise typer.Exit(EXIT_FAILED)


def _where(state: DaemonState) -> str:
    """Return a line that shows where the pods run."""
    if state.runtime is RuntimeName.DOCKER:
        return "pods are Docker containers"
    return f"pods start in {state.work_directory}"


def _show_page(state: StateDirectory) -> None:
    link = state.page_link
    if link:
        note(f"the page (the link works once, for one browser): {link}")


def _remove_containers() -> list[str]:
    from tfoperator.local.runtime.protocol import RuntimeUnavailable
    from tfoperator.local.runtime.selection import check_docker_py

    try:
        check_docker_py()
        from tfoperator.local.runtime.docker.engine import connect
        from tfoperator.local.runtime.docker.leftovers import remove_leftovers

        api = connect().api
    except RuntimeUnavailable as error:
        raise CliError(f"some containers may still exist: {error}", exit_code=EXIT_FAILED) from None
    with closing(api):
        return remove_leftovers(api)


def _jobs(kubeconfig: Path) -> list[dict[str, str]]:
    with Client(load_config(str(kubeconfig))) as client:
        jobs = client.list(TFJOBS, "", decode_tfjob).items
    return [{"namespace": job.metadata.namespace, "name": job.metadata.name, "phase": job.state.word} for job in jobs]


def _lines(report: dict[str, Any]) -> list[str]:
    if report["crashed"]:
        return ["the control plane has crashed; to clean up: tfoperator local down"]
    if not report["running"]:
        return ["no control plane is running; to start it: tfoperator local up"]
    word = "being stopped" if report["stopping"] else "up"
    lines = [
        f"the control plane is {word}: {report['url']} (pid {report['pid']}, since {report['since']})",
        f"  kubeconfig  {report['kubeconfig']}",
        f"  pods run in {report['workDirectory']}",
        f"  log         {report['log']}",
        f"  page        {report['page'] or '-'}",
    ]
    jobs = report["jobs"]
    lines.append(f"  {len(jobs)} TFJob{'' if len(jobs) == 1 else 's'}" + (":" if jobs else ""))
    return lines + [f"    {job['namespace']}/{job['name']}  {job['phase']}" for job in jobs]


def _await_end(running: DaemonState) -> bool:
    """Wait for the control plane's end, at most _STOP_SECONDS; return whether it ended."""
    deadline = time.monotonic() + _STOP_SECONDS
    while running.alive and time.monotonic() < deadline:
        time.sleep(0.05)
    return not running.alive


def _export(state: StateDirectory) -> str:
    kubeconfig, archive = state.kubeconfig.resolve(), state.archive.resolve()
    return f"export KUBECONFIG={shlex.quote(str(kubeconfig))} {ARCHIVE_VARIABLE}={shlex.quote(str(archive))}"


def _tail(log: Path) -> str:
    from tfoperator.local.runtime.log_files import last_lines

    return os.linesep.join(last_lines(log, 20)) or "(the log is empty)"
