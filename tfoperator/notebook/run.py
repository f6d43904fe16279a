"""`run_locally` runs a function as a distributed job on this machine, and returns its result."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.base.private_files import check_own, write_private
from tfoperator.cli.program_job import LOCAL_GRACE, ProgramJob, job_name
from tfoperator.cli.run_directory import execute, keep_records, logging_to, make_run_dir
from tfoperator.cli.views.run.summary import summary
from tfoperator.cli.views.run.view import View
from tfoperator.local.run.job_run import JobRun
from tfoperator.local.run.kept import LOG
from tfoperator.local.run.results import JobResult, RunOutcome, RunResult
from tfoperator.notebook.view import make_cell_view, result_table
from tfoperator.report.facts import Typed
from tfoperator.sdk.functions import function_script

_PIP_SECONDS = 1800.0  # seconds, the limit for pip


class EnvironmentFailed(Exception):
    """pip can't install the packages that the run needs. The message contains the last lines of pip's output."""


def make_environment(folder: Path, packages: Sequence[str], *, index_url: str | None = None) -> Path:
    """Create a virtual environment with the packages of this process and with `packages`.

    Return the path of its Python. The user's own environment stays unchanged. pip installs into the new environment,
    and reuses suitable packages of this process. Raises EnvironmentFailed.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    site_packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # A .pth file adds the packages of this process after the new environment's own packages, which take precedence.
    # Don't use system_site_packages: if this process itself runs in a virtual environment, the option adds the packages
    # of the base Python, and not of this process.
    ours = [path for path in sys.path if path and Path(path).is_dir() and "site-packages" in Path(path).parts]
    (site_packages / "tfoperator-parent.pth").write_text("".join(f"{path}\n" for path in ours))
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    if index_url is not None:
        command += ["--index-url", index_url]
    try:
        done = subprocess.run(
            [*command, "--", *packages],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PIP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentFailed(f"pip took more than {_PIP_SECONDS:.0f} s to install {', '.join(packages)}") from None
    if done.returncode:
        words = "\n".join((done.stderr or done.stdout).strip().splitlines()[-10:])
        raise EnvironmentFailed(f"can't install {', '.join(packages)}:\n{words}")
    return python


def variables(python: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that activate the virtual environment of `python`.

    So child processes of the training also use the environment.
    """
    return {
        "VIRTUAL_ENV": str(python.parent.parent),
        "PATH": os.pathsep.join([str(python.parent), environ.get("PATH", os.defpath)]),
    }


class LocalRunResult(msgspec.Struct, frozen=True):
    """The result of `run_locally`. A notebook shows it as a table."""

    run: RunResult

    @property
    def job(self) -> JobResult:
        """The result of the job."""
        return self.run.jobs[0]

    @property
    def run_directory(self) -> Path:
        """The directory that contains the logs, the events and the final TFJob."""
        return Path(self.run.run_directory)

    def log(self, replica: str = "worker-0") -> str:
        """Return the output of the last attempt of a replica. Raises KeyError if there was no such replica."""
        logs = {result.name: result.logs for result in self.job.replicas}[replica]
        return Path(logs[-1]).read_text(errors="replace") if logs else ""

    def __str__(self) -> str:
        return "\n".join(summary(self.run)).strip()

    def _repr_html_(self) -> str:
        return result_table(self.run)


class LocalRunFailed(Exception):
    """The run did not succeed.

    The message contains the last log lines of the replica that caused the failure. `result` is the result of the run.
    """

    def __init__(self, result: LocalRunResult, message: str) -> None:
        self.result = result
        super().__init__(message)


def run_locally(
    train_func: Callable[..., Any],
    *,
    parameters: Mapping[str, Any] | None = None,
    num_workers: int | None = None,
    num_ps_replicas: int = 0,
    num_chief_replicas: int = 0,
    gpus_per_worker: int = 0,
    packages_to_install: Sequence[str] = (),
    pip_index_url: str | None = None,
    env_vars: Mapping[str, str] | None = None,
    max_restarts: int = 0,
    restart_together: bool = False,
    timeout: float | None = None,
    name: str | None = None,
    logs_dir: str | os.PathLike[str] | None = None,
) -> LocalRunResult:
    """Run a function in several processes of this machine, and return the result.

    The processes find each other by TF_CONFIG, and start in the current directory. Any thread may call `run_locally`.
    When `run_locally` returns or raises an exception, all processes of the run have ended.

    - `train_func` must be self-contained: the function uses no names from outside of the function, and contains its own
      imports. The function is called with `parameters`, a dictionary, as its only argument, or without arguments if
      there are no `parameters`.
    - If `num_workers` is None, the job has one worker, or no worker if the job has a chief.
    - `packages_to_install` are installed in an environment of this run, and never in your own environment.
    - With `restart_together`, each of the `max_restarts` restarts starts all processes again. Collective communication
      needs this.
    - `timeout` is a number of seconds.
    - The logs are kept in `logs_dir` (the default is `.tfoperator/runs`).

    Raises LocalRunFailed if the run fails, is interrupted or takes too long. Raises FunctionSourceError if the function
    can't be sent, EnvironmentFailed if a package can't be installed, PermissionError if another user may replace the
    files in `logs_dir`, ValueError for invalid arguments, and KeyboardInterrupt if the user interrupts the notebook's
    cell.
    """
    script = function_script(train_func, parameters)
    if min(num_workers or 0, num_ps_replicas, num_chief_replicas, gpus_per_worker, max_restarts) < 0:
        raise ValueError("numbers of replicas, GPUs and restarts can't be negative")
    if num_chief_replicas > 1:
        raise ValueError("num_chief_replicas: there can be one chief at most")
    if num_workers == 0 and not num_chief_replicas:
        raise ValueError("num_workers: the job would have no replica that trains")
    job = job_name(name or train_func.__name__)
    run_dir = make_run_dir(None if logs_dir is None else Path(logs_dir), job)
    program = run_dir / f"{train_func.__name__}.py"
    check_own(run_dir)
    write_private(program, script.encode())
    view = make_cell_view()
    python, env = Path(sys.executable), dict(env_vars or {})
    if packages_to_install:
        view.say("tfoperator", f"installing {', '.join(packages_to_install)} for this run")
        python = make_environment(run_dir / "environment", packages_to_install, index_url=pip_index_url)
        env = {**variables(python, os.environ), **env}
    manifest = ProgramJob(
        name=job,
        command=[str(python.absolute()), "-u", str(program.absolute())],
        workers=num_workers,
        ps=num_ps_replicas,
        chief=bool(num_chief_replicas),
        gpus=gpus_per_worker,
        max_restarts=max_restarts,
        restart_together=restart_together,
        parameters=parameters,
        env={name: str(value) for name, value in env.items()},
        grace_seconds=LOCAL_GRACE,
    ).manifest()
    result = LocalRunResult(_run(manifest, view, run_dir, timeout))
    if result.run.outcome is not RunOutcome.SUCCEEDED:
        raise LocalRunFailed(result, str(result))
    return result


def _run(manifest: dict[str, Any], view: View, run_dir: Path, timeout: float | None) -> RunResult:
    with logging_to(run_dir / LOG):
        engine = JobRun([manifest], view, run_dir=run_dir, timeout=timeout, typed=Typed.FUNCTION)
        try:
            result = execute(run_dir, engine)
        finally:
            view.close()
        keep_records(run_dir, engine, result)
    return result
