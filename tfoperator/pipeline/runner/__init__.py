"""Runs pipelines: the steps in order, several at once, on their platforms, by one process that owns the run."""

from tfoperator.pipeline.runner.leftovers import CannotStop, clean_run, finish_run, old_runs, stop_run
from tfoperator.pipeline.runner.platforms import AS_PROCESSES, IN_CLUSTER, ON_DOCKER, ON_KUBERNETES
from tfoperator.pipeline.runner.progress import Listener, StepState, StepView
from tfoperator.pipeline.runner.run_records import PipelineCancelled, PipelineFailed, PipelineResult
from tfoperator.pipeline.runner.runner import PipelineRunner

__all__ = [
    "AS_PROCESSES",
    "IN_CLUSTER",
    "ON_DOCKER",
    "ON_KUBERNETES",
    "CannotStop",
    "Listener",
    "PipelineCancelled",
    "PipelineFailed",
    "PipelineResult",
    "PipelineRunner",
    "StepState",
    "StepView",
    "clean_run",
    "finish_run",
    "old_runs",
    "stop_run",
]
