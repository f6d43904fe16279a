"""The commands of `tfoperator` by name, with the place of each one's code and its line in the help.

A command starts as fast as its own imports: the application loads the module of the command that runs, and of no
other. The list of all commands, as `--help` prints it, needs no module at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple


class Command(NamedTuple):
    """The code of a command, below `tfoperator.cli.commands`, and the first line of its docstring."""

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
        "Run TFJobs on this machine, without a cluster: of manifests, or of a program (run train.py --workers 2).",
    ),
    "submit": Command(
        "jobs.submit",
        "submit",
        "Create TFJobs in a cluster: of manifests, or of a program (submit train.py --workers 2 --image IMAGE).",
    ),
    "get": Command("jobs.looking", "get", "Show TFJobs and how they stand."),
    "describe": Command("jobs.looking", "describe", "Show a TFJob with its replicas, conditions and events."),
    "logs": Command(
        "jobs.logs",
        "logs",
        "Show what replicas of a TFJob print, by default the one that leads it (the chief, else worker 0).",
    ),
    "report": Command("jobs.diagnosing", "report", "Tell why a TFJob failed or does not go on."),
    "stacks": Command(
        "jobs.diagnosing",
        "stacks",
        "Show where the Python threads of a TFJob's replicas are at this moment, to see what a job waits for.",
    ),
    "events": Command("jobs.looking", "events", "Show the events of a TFJob, its pods and services, the oldest first."),
    "ui": Command(
        "ui",
        "ui",
        "Serve a page that shows TFJobs as they train, and pipeline runs: state, replicas, progress, logs, resources.",
    ),
    "wait": Command(
        "jobs.wait", "wait", "Wait for a TFJob, or for a run of tfoperator run, by default until it has succeeded."
    ),
    "suspend": Command("jobs.changing", "suspend", "Stop the pods of TFJobs until they are resumed."),
    "resume": Command("jobs.changing", "resume", "Have suspended TFJobs run."),
    "scale": Command("jobs.changing", "scale", "Change the number of replicas of a TFJob."),
    "delete": Command("jobs.changing", "delete", "Delete TFJobs. Their pods and services go after them."),
    "launch": Command(
        "launch", "launch", "Run one component: a container on Docker, in a cluster, or as a TFJob; or a Python class."
    ),
    "validate": Command("validate", "validate", "Check TFJob manifests without a cluster."),
    "convert": Command("convert", "convert", "Print TFJobs of older versions (v1alpha1, v1alpha2) as kubeflow.org/v1."),
    "migrate": Command(
        "migrate", "migrate", "Say what would change for the TFJobs of the Go operator if this one took over."
    ),
    "mcp": Command(
        "agents.serving",
        "mcp",
        "Answer agents over stdin and stdout, by the Model Context Protocol: why a job failed, logs, progress, fields.",
    ),
    "crd": Command("crd", "print_crd", "Print the TFJob CustomResourceDefinition."),
}
"""Commands by name, in the order of the help."""


class CommandGroup(NamedTuple):
    """The commands of a group, and its line in the help.

    `itself` is the command that runs where no command of the group is named; by default that prints the group's help.
    """

    summary: str
    commands: Mapping[str, Command]
    itself: Command | None = None


_LOCAL: Final[Mapping[str, Command]] = {
    "up": Command(
        "local",
        "up",
        "Start the API server, the operator and the node agent; processes start in the current directory.",
    ),
    "down": Command(
        "local",
        "down",
        "Stop the control plane and everything that it runs; also cleans up after one that has crashed.",
    ),
    "status": Command(
        "local", "status", "Say whether a control plane is up, and what it runs. Exit code 1 if none is."
    ),
}

_RUNS: Final = Command("runs", "runs", "Show what tfoperator run has run in this folder, the newest first.")

_PIPELINE: Final[Mapping[str, Command]] = {
    "run": Command(
        "pipeline.running", "run", "Run a pipeline: its steps in order, independent ones at once, each recorded."
    ),
    "runs": Command("pipeline.looking", "runs", "List the runs, the newest first."),
    "show": Command("pipeline.looking", "show", "Show one run: its steps, what they read and what they put out."),
    "logs": Command("pipeline.looking", "logs", "Print what a step of a run has logged."),
    "lineage": Command(
        "pipeline.looking",
        "lineage",
        "Show what an artifact was made from: by which executions, with which parameters, from which artifacts.",
    ),
    "graph": Command(
        "pipeline.looking", "graph", "Print a picture (SVG) of a pipeline, or of a run with the state of each step."
    ),
    "ui": Command(
        "pipeline.looking",
        "ui",
        "Serve a page that shows the runs, also those to come. It needs no cluster; "
        "`tfoperator ui` shows jobs as well.",
    ),
    "stop": Command(
        "pipeline.running",
        "stop",
        "Stop what a run has left whose runner has died. A runner that lives is stopped by SIGTERM or Ctrl-C.",
    ),
    "clean": Command(
        "pipeline.running",
        "clean",
        "Remove the records and logs of runs that are over; the lineage of what they made stays known.",
    ),
    "compile": Command(
        "pipeline.compiling",
        "compile_pipeline",
        "Write a pipeline as a Workflow of Argo, or a DAG of Airflow, whose steps are pods that launch the pipeline's.",
    ),
    "step": Command(
        "pipeline.stepping",
        "step",
        "Launch one step of a run whose order an orchestrator decides, such as Argo or Airflow.",
    ),
    "finish": Command(
        "pipeline.stepping",
        "finish",
        "End a run whose steps an orchestrator has launched: stop what they may have left, and record how it ended.",
    ),
}

GROUPS: Final[Mapping[str, CommandGroup]] = {
    "local": CommandGroup("A control plane in the background, for kubectl and friends.", _LOCAL),
    "runs": CommandGroup(
        _RUNS.summary,
        {
            "compare": Command(
                "runs",
                "compare",
                "Lay two runs side by side: how they ended, parameters, last metrics, and curves by step.",
            )
        },
        _RUNS,
    ),
    "pipeline": CommandGroup("Pipelines of components, and what came from what.", _PIPELINE),
}
"""Groups of commands by name. They stand behind the commands in the help."""
