"""The definition of pipelines: components with typed channels between them, as in the TFX design (RFC 20190829).

Objects of this package only describe. `graph_of` converts them into the plain values that all other code uses.
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
from tfoperator.pipeline.dsl.pipeline import Pipeline, graph_of

__all__ = [
    "BaseComponent",
    "Channel",
    "ChannelParameter",
    "ComponentSpec",
    "ExecutionParameter",
    "ForEach",
    "Pipeline",
    "graph_of",
    "make_spec_class",
    "standard_artifacts",
]
