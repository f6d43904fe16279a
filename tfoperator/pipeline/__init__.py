"""Pipelines.

A pipeline is a set of components that are connected by channels. A channel carries the output of a component to the
components that read it. `dsl` defines pipelines, `graph` represents them as plain values, and `runner` runs each
component after the components whose outputs it reads. `driver` and `store` record the inputs and outputs of every run
(the lineage of the artifacts). The design follows the TFX RFC 20190829.
"""

from tfoperator.pipeline.dsl import standard_artifacts
from tfoperator.pipeline.dsl.component import (
    BaseComponent,
    Channel,
    ChannelParameter,
    ComponentSpec,
    ExecutionParameter,
    ForEach,
    make_spec_class,
)
from tfoperator.pipeline.dsl.pipeline import Pipeline
from tfoperator.pipeline.home import DEFAULT_HOME, Home, NoSuchRun
from tfoperator.pipeline.lease import RunInProgress
from tfoperator.pipeline.runner.base import TfxRunner
from tfoperator.pipeline.runner.leftovers import CannotStop, finish_run, stop_run
from tfoperator.pipeline.runner.platforms import AS_PROCESSES, IN_CLUSTER, ON_DOCKER, ON_KUBERNETES
from tfoperator.pipeline.runner.progress import (
    Listener,
    PipelineCancelled,
    PipelineFailed,
    PipelineResult,
    StepState,
    StepView,
)
from tfoperator.pipeline.runner.runner import PipelineRunner
from tfoperator.pipeline.store.database import StoreError
from tfoperator.pipeline.store.metadata_store import Lineage, MetadataStore, lineage_of
from tfoperator.pipeline.store.records import RunRecord

__all__ = [
    "AS_PROCESSES",
    "DEFAULT_HOME",
    "IN_CLUSTER",
    "ON_DOCKER",
    "ON_KUBERNETES",
    "BaseComponent",
    "CannotStop",
    "Channel",
    "ChannelParameter",
    "ComponentSpec",
    "ExecutionParameter",
    "ForEach",
    "Home",
    "Lineage",
    "Listener",
    "MetadataStore",
    "NoSuchRun",
    "Pipeline",
    "PipelineCancelled",
    "PipelineFailed",
    "PipelineResult",
    "PipelineRunner",
    "RunInProgress",
    "RunRecord",
    "StepState",
    "StepView",
    "StoreError",
    "TfxRunner",
    "finish_run",
    "lineage_of",
    "make_spec_class",
    "standard_artifacts",
    "stop_run",
]
