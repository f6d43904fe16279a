"""How a pipeline is written: components with typed channels between them, as in the TFX design (RFC 20190829).

Objects of this room only describe. `graph_of` makes of them the plain values that everything else works with.
"""

from tfoperator.pipeline.dsl import standard_artifacts
from tfoperator.pipeline.dsl.base_component import BaseComponent
from tfoperator.pipeline.dsl.channel import Channel, Outputs
from tfoperator.pipeline.dsl.pipeline import Pipeline, graph_of
from tfoperator.pipeline.dsl.spec import ChannelParameter, ComponentSpec, ExecutionParameter, make_spec_class

__all__ = [
    "BaseComponent",
    "Channel",
    "ChannelParameter",
    "ComponentSpec",
    "ExecutionParameter",
    "Outputs",
    "Pipeline",
    "graph_of",
    "make_spec_class",
    "standard_artifacts",
]
