"""Types of artifacts with TFX's names. A class with a `TYPE_NAME`, or any text, is a type, too."""

from __future__ import annotations

from typing import ClassVar


class ArtifactType:
    """Base of the types; `TYPE_NAME` is the type's name in metadata and messages, by default the class's name.

    A class that derives from another type is of that type, unless it sets its own `TYPE_NAME`.
    """

    TYPE_NAME: ClassVar[str] = "Artifact"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if ArtifactType in cls.__bases__ and "TYPE_NAME" not in vars(cls):
            cls.TYPE_NAME = cls.__name__


class ExternalArtifact(ArtifactType):
    """Data made by no step of a pipeline."""


class Examples(ArtifactType):
    """Samples for training or evaluation."""


class ExampleStatistics(ArtifactType):
    """Statistics of samples."""


class Schema(ArtifactType):
    """The schema of samples."""


class TransformGraph(ArtifactType):
    """The transformation of samples."""


class Model(ArtifactType):
    """A trained model."""


class ModelEvaluation(ArtifactType):
    """Metrics of a model."""


class ModelBlessing(ArtifactType):
    """Whether a model may be used."""


class PushedModel(ArtifactType):
    """A deployed model."""


ArtifactTypeName = type[ArtifactType] | str


def type_name(given: ArtifactTypeName) -> str:
    """Return the name of a type. Raises TypeError for an invalid one."""
    name = given if isinstance(given, str) else getattr(given, "TYPE_NAME", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{given!r} is no type of artifacts: that is a name, or a class with a TYPE_NAME")
    return name
