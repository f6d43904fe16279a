"""How is a pipeline run? Its steps in order, several at once, on their platforms, as one process owns the run."""

from tfoperator.pipeline.runner.leftovers import CannotStop, finish_run, stop_run
from tfoperator.pipeline.runner.outcome import PipelineCancelled, PipelineFailed, PipelineResult
from tfoperator.pipeline.runner.platforms import IN_CLUSTER, ON_DOCKER, ON_KUBERNETES
from tfoperator.pipeline.runner.progress import Listener, StepState, StepView
from tfoperator.pipeline.runner.runner import PipelineRunner

__all__ = [
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
    "finish_run",
    "stop_run",
]
