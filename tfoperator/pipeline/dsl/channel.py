"""Channels: artifacts on their way from one component to others, or from outside into a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfoperator.launcher import Artifact
from tfoperator.pipeline.dsl.standard_artifacts import ArtifactTypeName, type_name

if TYPE_CHECKING:
    from tfoperator.pipeline.dsl.base_component import BaseComponent


class Channel:
    """Artifacts of one type. With a `uri`, or `artifacts`, they exist; else `producer` will make one."""

    def __init__(
        self,
        type: ArtifactTypeName,  # noqa: A002 - what the design calls it
        uri: str = "",
        *,
        artifacts: Sequence[Artifact] = (),
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        """Raises TypeError for what is no type."""
        self.type_name = type_name(type)
        self.artifacts = (*((Artifact(uri, dict(properties or {})),) if uri else ()), *artifacts)
        self.producer: BaseComponent | None = None
        self.output = ""
        """Which of the producer's outputs it is."""

    @classmethod
    def of_output(cls, producer: BaseComponent, output: str, kind: ArtifactTypeName) -> Channel:
        """What a component will make."""
        channel = cls(kind)
        channel.producer, channel.output = producer, output
        return channel

    def __repr__(self) -> str:
        source = f"{self.producer.id}.{self.output}" if self.producer else ", ".join(a.uri for a in self.artifacts)
        return f"Channel({self.type_name}: {source or 'empty'})"


class Outputs(Mapping[str, Channel]):
    """A component's outputs: `component.outputs["model"]`, or `component.outputs.model`."""

    def __init__(self, channels: Mapping[str, Channel]) -> None:
        self._channels = dict(channels)

    def __getitem__(self, name: str) -> Channel:
        return self._channels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._channels)

    def __len__(self) -> int:
        return len(self._channels)

    def __getattr__(self, name: str) -> Channel:
        try:
            return self.__dict__["_channels"][name]  # type: ignore[no-any-return]
        except KeyError:
            known = ", ".join(self.__dict__.get("_channels", ())) or "none"
            raise AttributeError(f"there is no output {name!r}; there are: {known}") from None
