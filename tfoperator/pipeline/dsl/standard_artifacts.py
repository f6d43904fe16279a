"""Types of artifacts by the names that TFX gives them. A class with a `TYPE_NAME`, or any text, is a type, too."""

from __future__ import annotations

from typing import ClassVar


class ArtifactType:
    """Base of the types; `TYPE_NAME` is what metadata and messages call one: the class's name, unless it has another.

    A class that derives from another type is of that type, unless it has a `TYPE_NAME` of its own.
    """

    TYPE_NAME: ClassVar[str] = "Artifact"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if ArtifactType in cls.__bases__ and "TYPE_NAME" not in vars(cls):
            cls.TYPE_NAME = cls.__name__


class ExternalArtifact(ArtifactType):
    """Data that no step of a pipeline has made."""


class Examples(ArtifactType):
    """Samples to train or to evaluate on."""


class ExampleStatistics(ArtifactType):
    """Statistics of samples."""


class Schema(ArtifactType):
    """What samples look like."""


class TransformGraph(ArtifactType):
    """How samples are transformed."""


class Model(ArtifactType):
    """A trained model."""


class ModelEvaluation(ArtifactType):
    """How good a model is."""


class ModelBlessing(ArtifactType):
    """Whether a model may be used."""


class PushedModel(ArtifactType):
    """A model where it is used."""


ArtifactTypeName = type[ArtifactType] | str


def type_name(given: ArtifactTypeName) -> str:
    """The name of a type. Raises TypeError for what is none."""
    name = given if isinstance(given, str) else getattr(given, "TYPE_NAME", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{given!r} is no type of artifacts: that is a name, or a class with a TYPE_NAME")
    return name
