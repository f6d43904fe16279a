"""The commands of `tfoperator` by name, each with its module and its line in `--help`.

The application imports only the module of the command that runs. So the start of a command takes only the time of its
own imports. `--help` prints the list of all commands from this table, without an import of their modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple


class Command(NamedTuple):
    """The location of a command's code in `tfoperator.cli.commands`, and the first paragraph of its docstring."""

    module: str
    function: str
    summary: str

    def load(self) -> Callable[..., Any]:
        """Import the module; return the function."""
        function: Callable[..., Any] = getattr(import_module(f"tfoperator.cli.commands.{self.module}"), self.function)
        return function


COMMANDS: Final[Mapping[str, Command]] = {
    "run": Command(
        "run",
        "run",
        "Run TFJobs on this machine, without a cluster: from manifests, or from a program (run train.py --workers 2).",
    ),
    "submit": Command(
        "jobs.submit",
        "submit",
        "Create TFJobs in a cluster: from manifests, or from a program (submit train.py --workers 2 --image IMAGE).",
    ),
    "get": Command("jobs.looking", "get", "Show TFJobs and their states."),
    "describe": Command("jobs.looking", "describe", "Show a TFJob with its replicas, conditions and events."),
    "logs": Command(
        "jobs.logs",
        "logs",
        "Show the logs of a TFJob's replicas, by default only of the chief, or, without a chief, of worker 0.",
    ),
    "report": Command("jobs.diagnosing", "report", "Explain why a TFJob failed or does not make progress."),
    "stacks": Command(
        "jobs.diagnosing",
        "stacks",
        "Show the stacks of the Python threads of a TFJob's replicas, to find out where a job waits.",
    ),
    "events": Command(
        "jobs.looking", "events", "Show the events of a TFJob and of its pods and services, the oldest first."
    ),
    "ui": Command(
        "ui",
        "ui",
        "Serve a page that shows running TFJobs and pipeline runs: state, replicas, progress, logs, resources.",
    ),
    "wait": Command(
        "jobs.wait",
        "wait",
        "Wait until a TFJob, or a run of `tfoperator run`, has succeeded, or until another condition holds.",
    ),
    "suspend": Command("jobs.changing", "suspend", "Stop the pods of TFJobs until they are resumed."),
    "resume": Command("jobs.changing", "resume", "Let suspended TFJobs run again."),
    "scale": Command("jobs.changing", "scale", "Change the number of replicas of a TFJob."),
    "delete": Command("jobs.changing", "delete", "Delete TFJobs. Kubernetes then deletes their pods and services."),
    "launch": Command(
        "launch", "launch", "Run one component: a container on Docker, in a cluster, or as a TFJob; or a Python class."
    ),
    "validate": Command("validate", "validate", "Check TFJob manifests without a cluster."),
    "convert": Command("convert", "convert", "Print TFJobs of older versions (v1alpha1, v1alpha2) as kubeflow.org/v1."),
    "migrate": Command(
        "migrate", "migrate", "List what changes for TFJobs of Kubeflow's training operator if tfoperator manages them."
    ),
    "mcp": Command(
        "agents.serving",
        "mcp",
        "Serve agents over stdin and stdout (Model Context Protocol): they read reports, logs, progress, fields.",
    ),
    "crd": Command("crd", "print_crd", "Print the TFJob CustomResourceDefinition."),
}
"""Commands by name, in the order of the help."""


class CommandGroup(NamedTuple):
    """The commands of a group, and the group's line in the help.

    `itself` is the command that runs if the user names no command of the group; by default the help of the group is
    printed.
    """

    summary: str
    commands: Mapping[str, Command]
    itself: Command | None = None


_LOCAL: Final[Mapping[str, Command]] = {
    "up": Command(
        "local",
        "up",
        "Start the API server, the operator and the node agent. Processes of jobs start in the current directory.",
    ),
    "down": Command(
        "local",
        "down",
        "Stop the control plane and all its jobs, or clean up after its crash: end its processes and delete its files.",
    ),
    "status": Command(
        "local",
        "status",
        "Show whether a control plane is running, and its jobs. Exit code 1 if it is not running.",
    ),
}

_RUNS: Final = Command("runs", "runs", "List the runs of `tfoperator run` in this folder, the newest first.")

_PIPELINE: Final[Mapping[str, Command]] = {
    "run": Command(
        "pipeline.running",
        "run",
        "Run a pipeline: its steps in order, independent steps in parallel. Each step is recorded.",
    ),
    "runs": Command("pipeline.looking", "runs", "List the runs, the newest first."),
    "show": Command("pipeline.looking", "show", "Show a run: its steps, their inputs and their outputs."),
    "logs": Command("pipeline.looking", "logs", "Print the log of a step of a run."),
    "lineage": Command(
        "pipeline.looking",
        "lineage",
        "Show the lineage of an artifact: the executions, parameters and artifacts from which it was made.",
    ),
    "graph": Command(
        "pipeline.looking", "graph", "Print a picture (SVG) of a pipeline, or of a run with the states of its steps."
    ),
    "ui": Command(
        "pipeline.looking",
        "ui",
        "Serve a page of old and new pipeline runs. The page needs no cluster. `tfoperator ui` also shows jobs.",
    ),
    "stop": Command(
        "pipeline.running",
        "stop",
        "Stop the steps of a run whose process (pipeline run) has died. Stop a living process by Ctrl-C or SIGTERM.",
    ),
    "clean": Command(
        "pipeline.running",
        "clean",
        "Remove the records and logs of runs that have ended. The lineage of their artifacts is kept.",
    ),
    "compile": Command(
        "pipeline.compiling",
        "compile_pipeline",
        "Write a pipeline as a Workflow of Argo, or as a DAG of Airflow, whose pods launch the pipeline's steps.",
    ),
    "step": Command(
        "pipeline.stepping",
        "step",
        "Launch a step of a run in which an orchestrator, such as Argo or Airflow, decides the order of the steps.",
    ),
    "finish": Command(
        "pipeline.stepping",
        "finish",
        "End a run whose steps an orchestrator has launched: stop containers that still run, and record the result.",
    ),
}

GROUPS: Final[Mapping[str, CommandGroup]] = {
    "local": CommandGroup("A control plane in the background, for kubectl and other clients.", _LOCAL),
    "runs": CommandGroup(
        _RUNS.summary,
        {
            "compare": Command(
                "runs",
                "compare",
                "Compare two runs: their results, parameters, last metrics, and curves of the metrics over the steps.",
            )
        },
        _RUNS,
    ),
    "pipeline": CommandGroup("Pipelines of components, and the lineage of their artifacts.", _PIPELINE),
}
"""Groups of commands by name. The help lists them after the commands."""
