"""`tfoperator pipeline compile`: turns a pipeline into a Workflow of Argo, or into a DAG of Airflow."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from tfoperator.cli.commands.pipeline.opening import FileArgument, ParamOption, StepLaunching, in_words
from tfoperator.cli.commands.pipeline.running import load
from tfoperator.cli.option_groups import single_values
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.terminal.output import note

if TYPE_CHECKING:
    from tfoperator.pipeline.compiling.launch_plan import Claim, LauncherPods, LaunchPlan


class Orchestrator(StrEnum):
    """The value of `--to`: the orchestrator for which the pipeline is compiled."""

    ARGO = "argo"
    AIRFLOW = "airflow"


def compile_pipeline(
    file: FileArgument,
    image: Annotated[
        str,
        typer.Option(
            "--image",
            help="Image of the launchers: the programs that start the steps, one for each step. It must contain "
            "tfoperator[pipeline] and FILE.",
            metavar="IMAGE",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write. Default: standard output.", metavar="FILE")
    ] = None,
    to: Annotated[
        Orchestrator, typer.Option("--to", help="Orchestrator that will run the pipeline.")
    ] = Orchestrator.ARGO,
    template: Annotated[
        bool, typer.Option("--template", help="For Argo: write a WorkflowTemplate instead of a Workflow.")
    ] = False,
    params: ParamOption = None,
    pipeline_file: Annotated[
        str,
        typer.Option(
            "--pipeline-file",
            help="Path of FILE in the image. Default: /pipeline/ and the name of FILE.",
            metavar="PATH",
        ),
    ] = "",
    home: Annotated[
        str,
        typer.Option(
            "--home",
            help="Place for the states of runs and steps, the logs, and the metadata of the artifacts: a directory in "
            "the launchers' pods, or the URL of a database.",
            metavar="DIR|URL",
        ),
    ] = "/data/records",
    secrets: Annotated[
        list[str] | None,
        typer.Option(
            "--secret",
            help="Secret whose keys become environment variables of the launchers, e.g. PGUSER and PGPASSWORD.",
            metavar="NAME",
        ),
    ] = None,
    claims: Annotated[
        list[str] | None,
        typer.Option(
            "--claim",
            help="PersistentVolumeClaim that the pods of the compiled workflow mount, and mount path. Default: "
            "pipeline:/data; '' means no volume.",
            metavar="NAME:PATH",
        ),
    ] = None,
    service_account: Annotated[
        str, typer.Option("--service-account", help="Service account of the launchers.", metavar="NAME")
    ] = "pipeline-runner",
    parallel: Annotated[
        int, typer.Option("--parallel", min=1, help="Maximum number of steps that run at the same time.")
    ] = 4,
    retries: Annotated[
        int,
        typer.Option(
            "--retries",
            min=0,
            help="Maximum number of restarts of a step's launcher (the program that starts the step), if the launcher "
            "itself has died.",
        ),
    ] = 5,
    launching: StepLaunching = StepLaunching(),
) -> None:
    """Write a pipeline as a Workflow of Argo, or as a DAG of Airflow, whose pods launch the pipeline's steps.

    The pipeline's parameters become parameters of the Workflow or DAG. Compiling the same file again gives the same
    output.
    """
    if template and to is not Orchestrator.ARGO:
        raise CliError("--template needs --to argo")
    with in_words("Nothing was written."):
        from tfoperator.pipeline.compiling.launch_plan import LauncherPods

        loaded = load(file, single_values("--param", params), cache=None, hint="Nothing was written.")
        options = {"--platform": launching.platform, "--tmp-path": launching.tmp_path}
        options |= {"--attempts": str(launching.attempts), "--clean-up": launching.clean_up.value}
        flags = [] if launching.cache is None else ["--cache" if launching.cache else "--no-cache"]
        pods = LauncherPods(
            image=image,
            file=pipeline_file or f"/pipeline/{Path(file).name}",
            home=home,
            claims=_claims(claims),
            secrets=tuple(secrets or ()),
            service_account=service_account,
            parallel=parallel,
            retries=retries,
            options=(*[f"{name}={value}" for name, value in options.items() if value], *flags),
        )
        plan = _plan(loaded, launching.platform, pods)
        text = _written(plan, to, template=template)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{output}: {error.strerror}", exit_code=EXIT_FAILED) from None


def _plan(loaded: object, platform: str, pods: LauncherPods) -> LaunchPlan:
    from tfoperator.pipeline import IN_CLUSTER, PipelineRunner
    from tfoperator.pipeline.compiling.launch_plan import launch_plan, logs_folder, outside_of_claims
    from tfoperator.pipeline.dsl.pipeline import graph_of
    from tfoperator.pipeline.pipeline_file import LoadedPipeline

    assert isinstance(loaded, LoadedPipeline)
    graph = graph_of(loaded.pipeline)
    plan = launch_plan(graph, loaded.parameters, loaded.left_out, pods)
    PipelineRunner(IN_CLUSTER, loaded.platform_configs(platform), home=pods.home).check(loaded.pipeline)
    if outside_of_claims(graph.root, pods.claims):
        note(
            f"pipeline_root {graph.root} is on no volume of --claim, so files that a step's Python class writes "
            "there in a launcher's pod will be lost"
        )
    if "://" in pods.home and outside_of_claims(logs_folder(pods.home), pods.claims):
        note(
            "the folder for logs in --home is on no volume of --claim, so the logs of the steps will be deleted with "
            "the launchers' pods; the pods also print these logs"
        )
    if plan.others:
        note(
            f"parameters {', '.join(plan.others)}: their values can't be given as text, so each run uses the defaults "
            "in the pipeline's file"
        )
    return plan


def _written(plan: LaunchPlan, to: Orchestrator, *, template: bool) -> str:
    from tfoperator.pipeline.compiling.airflow import airflow_file
    from tfoperator.pipeline.compiling.argo import argo_workflow

    if to is Orchestrator.AIRFLOW:
        return airflow_file(plan)
    text: str = yaml.safe_dump(argo_workflow(plan, template=template), sort_keys=False, width=120, allow_unicode=True)
    return text


def _claims(given: list[str] | None) -> tuple[Claim, ...]:
    from tfoperator.pipeline.compiling.launch_plan import Claim

    claims: list[Claim] = []
    for text in ["pipeline:/data"] if given is None else [claim for claim in given if claim]:
        name, colon, path = text.partition(":")
        if not colon:
            raise CliError(f"--claim {text}: must have the form NAME:PATH")
        claims.append(Claim(name, path))
    return tuple(claims)
