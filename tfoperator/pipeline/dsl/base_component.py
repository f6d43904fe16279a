"""The base of all components of a pipeline: a spec, and what does the work."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from tfoperator.launcher import ComponentError, ExecutorSpec
from tfoperator.pipeline.dsl.channel import Channel, Outputs
from tfoperator.pipeline.dsl.spec import ComponentSpec
from tfoperator.pipeline.dsl.standard_artifacts import type_name


class BaseComponent:
    """A step of a pipeline. A subclass says what it takes (`SPEC_CLASS`) and what does the work (`EXECUTOR_SPEC`).

    `id` is its name in the pipeline, under which runners find its platform config: the class's name, with
    `.instance_name` behind if there is one. `with_id` gives it another.
    """

    SPEC_CLASS: ClassVar[type[ComponentSpec]] = ComponentSpec
    EXECUTOR_SPEC: ClassVar[ExecutorSpec | None] = None

    def __init__(
        self,
        spec: ComponentSpec | None = None,
        *,
        instance_name: str = "",
        custom_executor_spec: ExecutorSpec | None = None,
        **arguments: Any,
    ) -> None:
        """Raises ComponentError for wrong arguments, or if there is no executor."""
        kind = type(self).__name__
        if spec is not None and arguments:
            raise ComponentError(f"{kind}: give a spec, or its arguments")
        executor = custom_executor_spec or self.EXECUTOR_SPEC
        if executor is None:
            raise ComponentError(f"{kind} has no EXECUTOR_SPEC: a container or a class that does its work")
        self.id = f"{kind}.{instance_name}" if instance_name else kind
        self.executor_spec = executor
        try:
            self.spec = spec if spec is not None else self.SPEC_CLASS(**arguments)
        except ComponentError as error:
            raise ComponentError(f"{self.id}: {error}") from error
        self.outputs = Outputs(
            {
                name: Channel.of_output(self, name, type_name(parameter.type))
                for name, parameter in self.spec.OUTPUTS.items()
            }
        )

    def with_id(self, name: str) -> Self:
        """Call it otherwise; returns itself."""
        self.id = name
        return self

    @property
    def name(self) -> str:
        """Its `id`."""
        return self.id

    @property
    def inputs(self) -> dict[str, Channel]:
        """The channels that it reads, by input."""
        return self.spec.inputs

    @property
    def exec_properties(self) -> dict[str, Any]:
        """Its parameters."""
        return self.spec.exec_properties
