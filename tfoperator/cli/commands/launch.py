"""`tfoperator launch component.yaml`: runs one component on Docker, in a cluster, as a TFJob, or in this process.

Exit codes for a pipeline: 0 success, 1 permanent failure, 75 (EX_TEMPFAIL) try again later, 2 the input is invalid. The
component's log goes to standard output, without control characters. All other output goes to standard error.
"""

from __future__ import annotations

import sys
import threading
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from tfoperator.base.controlchars import without_controls
from tfoperator.cli.cluster import ClusterOptions
from tfoperator.cli.option_groups import pairs, single_values
from tfoperator.cli.terminal.errors import EXIT_FAILED, EXIT_INTERRUPTED, CliError, output_lost
from tfoperator.cli.terminal.interruptions import Interruptions, in_thread
from tfoperator.cli.terminal.output import note
from tfoperator.cli.terminal.stdio import FragileStream

if TYPE_CHECKING:
    from tfoperator.launcher import BaseComponentLauncher, LaunchContext, LaunchResult
    from tfoperator.launcher.component_file import ComponentFile

EXIT_RETRYABLE: Final = 75  # EX_TEMPFAIL of sysexits.h


class CleanUpPolicy(StrEnum):
    """The value of `--clean-up`: when to remove a container that has ended."""

    ALWAYS = "always"
    ON_SUCCESS = "on-success"
    NEVER = "never"


class Launching(msgspec.Struct, frozen=True):
    """The options for the launch of a component.

    The commands `launch`, `pipeline run`, `pipeline step` and `pipeline compile` have these options.
    """

    attempts: Annotated[
        int,
        typer.Option(
            "--attempts",
            min=1,
            help="Maximum number of executions of a component. A failed component is executed again only if a retry "
            "may help.",
        ),
    ] = 3
    clean_up: Annotated[
        CleanUpPolicy, typer.Option("--clean-up", help="When to remove a container that has ended.")
    ] = CleanUpPolicy.ALWAYS
    tmp_path: Annotated[
        str,
        typer.Option(
            "--tmp-path",
            help=(
                "Place for output.json, the file in which a component reports errors and outputs: a URL of an object "
                "store, or a directory that has the same path in the containers and in the launcher, which is the "
                "program that starts the containers."
            ),
            metavar="DIR|URL",
        ),
    ] = ""

    def context(self, cluster: ClusterOptions, **others: Any) -> LaunchContext:
        """Return the context of a launch with these options. `others` are other fields of the context."""
        from tfoperator.launcher import CleanUp, LaunchContext, RetryPolicy

        return LaunchContext(
            tmp_path=self.tmp_path,
            retry=RetryPolicy(attempts=self.attempts),
            clean_up=CleanUp(self.clean_up.value),
            namespace=cluster.namespace or "",
            kube=cluster.api,
            **others,
        )


def launch(
    file: Annotated[
        str, typer.Argument(metavar="COMPONENT", help="The component's file, component.yaml; see docs/launcher.md.")
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="Location of an input; repeat the option for more inputs.", metavar="NAME=URI"),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", help="Location of an output; repeat the option for more outputs.", metavar="NAME=URI"),
    ] = None,
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            help="Value of a parameter; repeat the option for more parameters.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    launcher: Annotated[
        str,
        typer.Option(
            "--launcher",
            help=(
                "Platform that runs the component: docker, process, kubernetes, tfjob, in-process, or your own "
                "launcher class, package.module:Class. Default: the platform for which the component's "
                "file has a config."
            ),
            metavar="NAME",
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be launched, and launch nothing.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted launch.")] = False,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache",
            help="Skip the component if it succeeded earlier with the same program, inputs and parameters, and use "
            "the earlier outputs.",
        ),
    ] = False,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            "--work-dir",
            help="Folder for the record of this launch, which --resume reads. Default: .tfoperator/launches/ and the "
            "component's name.",
            metavar="DIR",
        ),
    ] = None,
    launching: Launching = Launching(),
    cluster: ClusterOptions = ClusterOptions(),
) -> None:
    """Run one component: a container on Docker, in a cluster, or as a TFJob; or a Python class.

    Exit code 0: it succeeded. 1: it failed, and a retry can't help. 75: it failed, and a retry may help. 2: bad input.
    130, 143: interrupted.
    """
    from tfoperator.launcher import LocalMetadata
    from tfoperator.launcher.core.errors import ComponentError

    log = FragileStream(sys.stdout)

    def show(line: str) -> None:
        print(without_controls(line, keep="\r"), file=log, flush=True)

    try:
        loaded = _load(file)
        records = LocalMetadata(Path(".tfoperator", "executions")) if cache else None
        made = _launcher(
            loaded,
            launcher,
            loaded.component(_lists("--input", inputs), _lists("--output", outputs), single_values("--param", params)),
            launching.context(
                cluster,
                work_dir=work_dir,
                resume=resume,
                cache=cache,
                driver=records,
                publisher=records,
                log=show,
                tell=note,
            ),
        )
        if dry_run:
            typer.echo(made.dry_run(), nl=False)
            return
        made.check()
    except ComponentError as error:
        raise CliError(str(error), "Nothing was launched.") from None
    raise typer.Exit(_run(made, log))


def _load(file: str) -> ComponentFile:
    from tfoperator.launcher.component_file import load_component_file

    try:
        return load_component_file(file)
    except OSError as error:
        raise CliError(f"{file}: {error.strerror}", "Nothing was launched.") from None


def _launcher(file: ComponentFile, wanted: str, component: Any, context: LaunchContext) -> BaseComponentLauncher:
    """Return the launcher that `wanted` names.

    If `wanted` is "", return the first launcher that accepts the component together with one of the platform configs of
    `file`. If the file has no platform config, return the first launcher that accepts the component.
    """
    from tfoperator import launcher as launchers
    from tfoperator.launcher import ComponentError, LocalComponentRunner, TFJobPlatformConfig, named_launcher

    by_name: dict[str, type[BaseComponentLauncher]] = {
        launcher_class.kind: launcher_class
        for launcher_class in (
            launchers.InProcessComponentLauncher,
            launchers.DockerComponentLauncher,
            launchers.ProcessComponentLauncher,
            launchers.KubernetesPodComponentLauncher,
            launchers.TFJobComponentLauncher,
        )
    }
    if ":" in wanted:
        by_name[wanted] = named_launcher(wanted)
    elif wanted and wanted not in by_name:
        raise ComponentError(
            f"--launcher {wanted}: the launchers are {', '.join(by_name)}; your own launcher class has the form "
            "package.module:Class"
        )
    chosen = [by_name[wanted]] if wanted else list(by_name.values())
    # A file may have a config for each platform, so a config that is not used is no error.
    spec = component.executor_spec
    configs = [c for c in file.configs if any(launcher_class.can_launch(spec, c) for launcher_class in chosen)]
    if wanted == "tfjob" and not configs:
        configs = [TFJobPlatformConfig()]
    runner = LocalComponentRunner(chosen, {component.name: configs} if configs else {})
    return runner.launch_info(component).make(context)


def _run(launcher: BaseComponentLauncher, log: FragileStream) -> int:
    from tfoperator.launcher import (
        InProcessComponentLauncher,
        LaunchCancelled,
        PermanentFailure,
        RetryableFailure,
        WorkDirectoryError,
    )

    def cancel() -> None:
        in_thread(launcher.cancel)()
        in_handler = threading.current_thread() is threading.main_thread()
        if in_handler and isinstance(launcher, InProcessComponentLauncher) and launcher.busy:
            raise KeyboardInterrupt  # interrupts the component's own code, which runs in this thread

    interruptions = Interruptions(cancel)
    log.when_lost(interruptions.hang_up)
    try:
        with interruptions:
            result = launcher.launch()
    except WorkDirectoryError as error:
        raise CliError(str(error), "Nothing was launched.") from None
    except PermanentFailure as error:
        raise CliError(str(error), "The component failed, and a retry would not help.", exit_code=EXIT_FAILED) from None
    except RetryableFailure as error:
        hint = (
            f"A retry may help: run the same command with --resume (the record of this launch is {launcher.work.path})."
        )
        raise CliError(str(error), hint, exit_code=EXIT_RETRYABLE) from None
    except (LaunchCancelled, KeyboardInterrupt) as error:
        code = 128 + interruptions.signals[-1] if interruptions.signals else EXIT_INTERRUPTED
        if log.error is not None:
            hint = "To continue it, run the same command with --resume."
            raise output_lost(
                log.error, f": component {launcher.component.name} was cancelled", hint, exit_code=code
            ) from None
        raise CliError(str(error) or f"component {launcher.component.name}: cancelled", exit_code=code) from None
    _report_result(result)
    return 0


def _report_result(result: LaunchResult) -> None:
    how = "outputs of an earlier execution" if result.cached else f"{result.attempts} attempt"
    how += "s" if not result.cached and result.attempts != 1 else ""
    note(f"{result.component} succeeded (execution {result.execution_id}, {how})")
    for name, artifacts in result.outputs.items():
        for artifact in artifacts:
            note(f"  {name}: {artifact.uri}")


def _lists(option: str, given: list[str] | None) -> dict[str, list[str]]:
    values_by_name: dict[str, list[str]] = {}
    for name, value in pairs(option, given):
        values_by_name.setdefault(name, []).append(value)
    return values_by_name
