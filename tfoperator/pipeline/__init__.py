"""Pipelines: components connected by channels, run in order, each once, with a record of the lineage of artifacts.

`dsl` defines pipelines, `graph` has them as plain values, `runner` runs them; `driver` and `store` record the inputs
and outputs of every run. The design is the TFX RFC 20190829.
"""

from tfoperator.pipeline.database_home import open_home
from tfoperator.pipeline.dsl import (
    BaseComponent,
    Channel,
    ChannelParameter,
    ComponentSpec,
    ExecutionParameter,
    ForEach,
    Pipeline,
    make_spec_class,
    standard_artifacts,
)
from tfoperator.pipeline.home import DEFAULT_HOME, LAST, Home, NoSuchRun
from tfoperator.pipeline.lease import RunInProgress
from tfoperator.pipeline.runner import (
    AS_PROCESSES,
    IN_CLUSTER,
    ON_DOCKER,
    ON_KUBERNETES,
    CannotStop,
    Listener,
    PipelineCancelled,
    PipelineFailed,
    PipelineResult,
    PipelineRunner,
    StepState,
    StepView,
    finish_run,
    stop_run,
)
from tfoperator.pipeline.store import Lineage, MetadataStore, RunRecord, StoreError, lineage_of

__all__ = [
    "AS_PROCESSES",
    "DEFAULT_HOME",
    "IN_CLUSTER",
    "LAST",
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
    "finish_run",
    "lineage_of",
    "make_spec_class",
    "open_home",
    "standard_artifacts",
    "stop_run",
]
