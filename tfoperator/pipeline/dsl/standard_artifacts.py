"""Types of artifacts with TFX's names. A class with a `TYPE_NAME`, or any text, is a type, too."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from tfoperator.kube.http.nesting import reaches
from tfoperator.kube.protocol.errors import UNDECODABLE


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


class Integer(ArtifactType):
    """A number, which is the text of the file."""


class Float(ArtifactType):
    """A number, which is the text of the file."""


class String(ArtifactType):
    """The text of the file."""


class Boolean(ArtifactType):
    """`true` or `false`, or `1` or `0` as TFX writes it, which is the text of the file."""


class JsonValue(ArtifactType):
    """Anything that is JSON."""


_MAX_DEPTH = 100
VALUES = {"Integer": (int,), "Float": (int, float), "String": (str,), "Boolean": (bool,), "JsonValue": (object,)}
"""The types whose content is a value that other steps may have as a parameter."""


def value_of(kind: str, raw: Any) -> Any:
    """Return the value of one of those types, of the bytes of a file or as JSON has it. Raises ValueError."""
    value = raw
    if isinstance(raw, bytes):
        text = raw.decode()
        try:
            value = text if kind == "String" else msgspec.json.decode(_truth(text) if kind == "Boolean" else text)
        except UNDECODABLE as error:
            raise ValueError(f"{text[:100]!r}: {error}") from None
    if kind == "Integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, VALUES[kind]) or (isinstance(value, bool) and kind in ("Integer", "Float")):
        raise ValueError(f"{str(value)[:100]!r} is {type(value).__name__}")
    if reaches(value, _MAX_DEPTH + 1):  # a later reader may be deeper in calls than this
        raise ValueError(f"it has more than {_MAX_DEPTH} levels of nesting")
    return value


def _truth(text: str) -> str:
    """Return the JSON of a truth value."""
    return {"1": "true", "0": "false"}.get(text.strip(), text.lower())


ArtifactTypeName = type[ArtifactType] | str


def type_name(given: ArtifactTypeName) -> str:
    """Return the name of a type. Raises TypeError for an invalid type."""
    name = given if isinstance(given, str) else getattr(given, "TYPE_NAME", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{given!r} is not a type of artifacts: a type is a name, or a class with a TYPE_NAME")
    return name
