"""The options of `run` and `submit` that choose the runtime of pods, or describe a program that runs as a job.

The module also contains the checks of several options together.
"""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from tfoperator.api.v1.parts.run_policy import LEAST_PROGRESS_DEADLINE
from tfoperator.base.controlchars import in_utf8
from tfoperator.base.private_files import check_own_place
from tfoperator.cli.option_groups import pairs
from tfoperator.cli.other_programs import refuse_other_programs
from tfoperator.cli.program_job import LOCAL_GRACE, LOCAL_IMAGE, ProgramJob, WorkerNumbers, is_program, job_name
from tfoperator.cli.terminal.errors import CliError
from tfoperator.cli.waiting import timeout_seconds
from tfoperator.local.runtime.selection import PROCESSES, RuntimeName, RuntimeOptions
from tfoperator.local.usage import usable_cpus

DEFAULT_CHECKPOINTS = Path(".tfoperator", "checkpoints")
"""The folder of the checkpoints if the user gives `--resume` without a folder."""


class LocalPodOptions(msgspec.Struct, frozen=True):
    """The options of the pod runtime, for the commands that run pods on this machine."""

    runtime: Annotated[
        RuntimeName,
        typer.Option("--runtime", help="Runtime of the pods: processes of this machine, or Docker containers."),
    ] = RuntimeName.PROCESS
    allow_privileged: Annotated[
        bool,
        typer.Option(
            "--allow-privileged",
            help=(
                "Allow Docker containers to mount folders of this machine (hostPath), to use its "
                "network, or to be privileged."
            ),
        ),
    ] = False
    enforce_limits: Annotated[
        bool,
        typer.Option(
            "--enforce-limits",
            help=(
                "Enforce the CPU and memory limits of processes by control groups. Limits of Docker "
                "containers are always enforced."
            ),
        ),
    ] = False

    def chosen(self, work_dir: Path | None = None, *, keep_volumes: bool = False) -> RuntimeOptions:
        """Return the options as RuntimeOptions. Processes start in `work_dir`.

        With `keep_volumes`, emptyDir volumes stay after their pod has ended.
        """
        return RuntimeOptions(self.runtime, work_dir, self.allow_privileged, self.enforce_limits, keep_volumes)


_PANEL = "A program instead of a manifest"
_MOST = 10_000  # replicas of a type, as in the CRD


def _option(name: str, text: str, **limits: Any) -> Any:
    return typer.Option(name, help=text, rich_help_panel=_PANEL, **limits)


def _worker_numbers(text: str) -> WorkerNumbers:
    """Return the minimum and the maximum from a text such as `4` (then both are 4) or `1..4`.

    Raises typer.BadParameter for any other text.
    """
    first, dots, last = text.partition("..")
    numbers = [
        int(word) if word.isascii() and word.isdigit() and len(word) <= 5 else -1 for word in (first, last or first)
    ]
    least, most = numbers
    if (dots and not last) or not 0 <= least <= most <= _MOST:
        raise typer.BadParameter(f"{text!r} must be a number from 0 to {_MOST}, or a range such as 1..4")
    if dots and not least:
        raise typer.BadParameter(
            f"{text!r}: a range must begin at 1 or more, because at least 1 worker has to train: use 1..{most}"
        )
    return WorkerNumbers(least, most)


class ScopeOption(StrEnum):
    """The value of `--restart-scope`: which replicas are restarted after a failure."""

    REPLICA = "replica"
    JOB = "job"


class ProgramOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the options for a program. The defaults are the same as on the command line."""

    workers: Annotated[
        WorkerNumbers | None,
        _option(
            "--workers",
            "Number of workers. Default: 1, or 0 with --chief. With a range such as 1..4, the number may change during "
            "the run; on this machine, such a run begins with one worker for each CPU, within the range.",
            parser=_worker_numbers,
            metavar="N|MIN..MAX",
        ),
    ] = None
    ps: Annotated[int, _option("--ps", "Number of parameter servers.", min=0, max=_MOST)] = 0
    data_workers: Annotated[
        int,
        _option(
            "--data-workers",
            "Number of data workers of a tf.data service, whose address is in $TF_DATA_SERVICE.",
            min=0,
            max=1000,
        ),
    ] = 0
    chief: Annotated[bool, _option("--chief", "Add a chief.")] = False
    evaluator: Annotated[bool, _option("--evaluator", "Add an evaluator.")] = False
    gpus: Annotated[int, _option("--gpus", "Number of GPUs of each chief and worker.", min=0, max=1024)] = 0
    max_restarts: Annotated[
        int, _option("--max-restarts", "Total number of restarts of failed replicas.", min=0, max=_MOST)
    ] = 0
    restart_scope: Annotated[
        ScopeOption,
        _option(
            "--restart-scope",
            "After a failure, --restart-scope replica restarts only the failed replica, and --restart-scope job "
            "restarts all replicas (for collective strategies).",
        ),
    ] = ScopeOption.REPLICA
    env: Annotated[
        list[str] | None,
        _option(
            "--env",
            "Environment variable of each replica, NAME=VALUE; repeat the option for more variables.",
            metavar="NAME=VALUE",
        ),
    ] = None
    cpus: Annotated[str | None, _option("--cpus", "CPU limit of each replica.", metavar="NUMBER")] = None
    memory: Annotated[str | None, _option("--memory", "Memory limit of each replica, e.g. 4Gi.", metavar="SIZE")] = None
    checkpoint: Annotated[
        Path | None,
        _option(
            "--checkpoint",
            "Folder for checkpoints. The program gets the path of the folder in $TFOPERATOR_CHECKPOINT_DIR.",
            metavar="DIR",
        ),
    ] = None
    resume: Annotated[
        bool,
        _option(
            "--resume",
            "Continue from the checkpoints of an earlier run. Without --checkpoint, these checkpoints are in "
            ".tfoperator/checkpoints.",
        ),
    ] = False
    tensorboard: Annotated[
        str | None,
        _option(
            "--tensorboard",
            "Serve a TensorBoard that shows the event files which the program writes to this folder.",
            metavar="DIR",
        ),
    ] = None
    stall: Annotated[
        str | None,
        _option(
            "--stall",
            "Report a stall, with the stacks of all threads, if the job makes no progress for this time (30s or more).",
        ),
    ] = None
    grace: Annotated[
        str | None,
        _option(
            "--grace",
            "Time from SIGTERM to SIGKILL when a program is stopped. Default on this machine: 10s.",
            metavar="TIME",
        ),
    ] = None
    name: Annotated[str | None, _option("--name", "Name of the job; by default the name of the file.")] = None
    module: Annotated[bool, _option("--module/--no-module", "Run the program as a module: python -m FILE.")] = False
    image: Annotated[
        str | None, _option("--image", "Image for Docker and clusters. For `run`, the image must contain the program.")
    ] = None
    command: Annotated[
        str | None,
        _option("--command", "Command that starts the program in the image; by default python FILE.", metavar="WORDS"),
    ] = None
    emit_yaml: Annotated[
        bool, _option("--emit-yaml", "Print the manifest of the job for a cluster instead of running the job.")
    ] = False

    def given(self) -> list[str]:
        """Return the options that differ from their defaults, as the user types them, for example `--max-restarts`."""
        values, default = msgspec.structs.asdict(self), msgspec.structs.asdict(ProgramOptions())
        return ["--" + name.replace("_", "-") for name, value in values.items() if value != default[name]]


def program_job(words: Sequence[str], options: ProgramOptions, pods: RuntimeOptions = PROCESSES) -> ProgramJob | None:
    """Return the job of a program. The first word is the program's file, the other words are its arguments.

    Return None if the words are manifests. On this machine, an elastic job begins with one worker for each CPU, within
    its minimum and maximum of workers. For a cluster, an elastic job begins with its maximum of workers. If processes
    start in another directory (`pods.work_dir`), the command has the absolute path of the program.

    Raises CliError if the program does not exist, or if the options are invalid or can't be combined.
    """
    file, *args = words
    if not options.module and not is_program(file):
        _refuse_for_manifests(words, options)
        return None
    if not options.module and not Path(file).is_file():
        raise CliError(f"{file}: {'is a directory' if Path(file).is_dir() else 'no such file'}")
    job = ProgramJob(
        name=options.name or job_name(file.rpartition(".")[2] if options.module else file),
        command=_command(file, options, pods),
        args=args,
        image=_image(file, options, pods),
        workers=_workers(options.workers, None if options.emit_yaml else usable_cpus()),
        elastic=_elastic(options.workers),
        ps=options.ps,
        data_workers=options.data_workers,
        chief=options.chief,
        evaluator=options.evaluator,
        gpus=options.gpus,
        max_restarts=options.max_restarts,
        restart_together=options.restart_scope is ScopeOption.JOB,
        env=dict(pairs("--env", options.env)),
        limits={name: amount for name, amount in (("cpu", options.cpus), ("memory", options.memory)) if amount},
        checkpoints=_checkpoints(options, pods),
        log_dir=_log_dir(options, pods),
        stall_seconds=None if options.stall is None else _stall_seconds(options.stall),
        grace_seconds=_grace(options),
    )
    if job.restart_together and not job.max_restarts:
        raise CliError(
            "--restart-scope job has no effect without --max-restarts: give --max-restarts, too",
            "Add --max-restarts 3.",
        )
    if job.elastic is not None and job.ps:
        raise CliError(
            "--workers with a range can't be combined with --ps: elastic jobs have no parameter servers",
            "Leave out --ps, or give --workers a single number.",
        )
    if job.workers == 0 and not options.chief:
        raise CliError("the job would have no replica that trains", "Set --workers to 1 or more, or add --chief.")
    texts = (*job.env, *job.env.values(), job.checkpoints, job.log_dir)
    for word in (job.name, *job.command, *job.args, job.image, *texts):
        if word != in_utf8(word):
            raise CliError(f"{word}: must be UTF-8 text", "Nothing was started.")
    return job


def _workers(numbers: WorkerNumbers | None, cpus: int | None) -> int | None:
    """Return the number of workers with which the job begins; None without `--workers`.

    `cpus` is the number of CPUs of this machine, or None for a job for a cluster.
    """
    if numbers is None:
        return None
    return numbers.most if cpus is None else max(numbers.least, min(numbers.most, cpus))


def _elastic(numbers: WorkerNumbers | None) -> WorkerNumbers | None:
    return None if numbers is None or numbers.least == numbers.most else numbers


def _refuse_for_manifests(words: Sequence[str], options: ProgramOptions) -> None:
    for word in words[:1]:
        refuse_other_programs(word)
    programs = [word for word in words if is_program(word)]
    if programs:
        hint = (
            f"Run each program with its own command: tfoperator run {shlex.quote(programs[0])} --workers 2 [-- ITS "
            "ARGUMENTS]"
        )
        raise CliError(f"{words[0]} and {programs[0]}: give either manifests or one program, not both", hint)
    if given := options.given():
        explanation = (
            "this option is for a program; in a manifest, set the corresponding field instead"
            if len(given) == 1
            else "these options are for a program; in a manifest, set the corresponding fields instead"
        )
        hint = "To run a program: tfoperator run train.py --workers 2"
        raise CliError(f"{', '.join(given)}: {explanation}", hint)


def _command(file: str, options: ProgramOptions, pods: RuntimeOptions) -> list[str]:
    if options.command is not None:
        try:
            words = shlex.split(options.command)
        except ValueError as error:
            raise CliError(f"--command: {error}") from None
        if not words:
            raise CliError("--command: is empty")
        return words
    if options.module:
        return ["python", "-m", file]
    elsewhere = pods.work_dir is not None and not pods.in_containers and not options.emit_yaml
    return ["python", os.path.abspath(file) if elsewhere else file]


def _stall_seconds(stall: str) -> int:
    """Return the deadline for progress, in seconds.

    Raises CliError if the deadline is shorter than the minimum of `progressDeadlineSeconds`.
    """
    seconds = math.ceil(timeout_seconds(stall, "--stall"))
    if seconds < LEAST_PROGRESS_DEADLINE:
        raise CliError(f"--stall: {stall} must be {LEAST_PROGRESS_DEADLINE}s or more")
    return seconds


def _grace(options: ProgramOptions) -> int | None:
    if options.grace is not None:
        return math.ceil(timeout_seconds(options.grace, "--grace"))
    return None if options.emit_yaml else LOCAL_GRACE


def _checkpoints(options: ProgramOptions, pods: RuntimeOptions) -> str:
    if options.checkpoint is None and not options.resume:
        return ""
    _need_this_machine("--resume" if options.checkpoint is None else "--checkpoint", "spec.checkpoint", options, pods)
    place = Path(os.path.abspath(options.checkpoint or DEFAULT_CHECKPOINTS))
    try:
        check_own_place(place)
    except OSError as error:
        raise CliError(f"{error.filename}: {error.strerror}", "Choose another folder with --checkpoint DIR.") from None
    return str(place)


def _log_dir(options: ProgramOptions, pods: RuntimeOptions) -> str:
    if options.tensorboard is None or "://" in options.tensorboard:
        return options.tensorboard or ""
    _need_this_machine("--tensorboard", "spec.tensorBoard", options, pods)
    return os.path.abspath(options.tensorboard)


def _need_this_machine(option: str, field: str, options: ProgramOptions, pods: RuntimeOptions) -> None:
    if options.emit_yaml or pods.in_containers:
        hint = f"For a cluster, write a manifest with a volume in the field {field}."
        raise CliError(
            f"{option}: this folder is on this machine only, so a container or a cluster can't read it", hint
        )


def check_checkpoints(job: ProgramJob, options: ProgramOptions, namespace: str) -> None:
    """Raise CliError if the job's checkpoint folder is not empty, and the user has not given `--resume`.

    Such a folder has checkpoints of an earlier run. Without the error, the job would continue from these checkpoints,
    although the user may not want this.
    """
    folder = Path(job.checkpoints, namespace, job.name)
    if not job.checkpoints or options.resume or not folder.is_dir() or not any(folder.iterdir()):
        return
    hint = (
        "To continue from these checkpoints, use --resume. Otherwise choose another --checkpoint or --name, or "
        "remove the checkpoints."
    )
    raise CliError(f"{folder}: this folder already has checkpoints of an earlier run of {job.name}", hint)


def _image(file: str, options: ProgramOptions, pods: RuntimeOptions) -> str:
    if options.image:
        return options.image
    if options.emit_yaml:
        if sys.stdin.isatty():
            return str(typer.prompt(f"Image that holds {file}", err=True))
        raise CliError(
            "--emit-yaml: the image that contains the program is not given",
            f"Name the image with --image IMAGE. The image must be able to start {file}.",
        )
    if pods.in_containers:
        hint = (
            f"Build an image that contains {file}, and name it with --image; if the program is not started by python "
            f"{file}, give --command, too."
        )
        raise CliError("--runtime docker: the image that contains the program is not given", hint)
    return LOCAL_IMAGE
