"""Types of artifacts, with the same names as in TFX.

The type of a channel can also be any other class with a `TYPE_NAME`, or any text.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from tfoperator.kube.http.nesting import reaches
from tfoperator.kube.protocol.errors import UNDECODABLE


class ArtifactType:
    """The base of the types.

    `TYPE_NAME` is the type's name in metadata and messages. Its default is the name of the class. A class that derives
    from another type has the name of this type, unless the class sets its own `TYPE_NAME`.
    """

    TYPE_NAME: ClassVar[str] = "Artifact"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if ArtifactType in cls.__bases__ and "TYPE_NAME" not in vars(cls):
            cls.TYPE_NAME = cls.__name__


class ExternalArtifact(ArtifactType):
    """Data that no step of the pipeline has made."""


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
    """The result of a check whether a model may be used."""


class PushedModel(ArtifactType):
    """A deployed model."""


class Integer(ArtifactType):
    """A whole number. The artifact's file contains the number as text."""


class Float(ArtifactType):
    """A number. The artifact's file contains the number as text."""


class String(ArtifactType):
    """A text. It is the content of the artifact's file."""


class Boolean(ArtifactType):
    """A truth value. The artifact's file contains `true` or `false`, or `1` or `0` if TFX wrote the file."""


class JsonValue(ArtifactType):
    """Any value that JSON can represent."""


_MAX_DEPTH = 100
VALUES = {"Integer": (int,), "Float": (int, float), "String": (str,), "Boolean": (bool,), "JsonValue": (object,)}
"""The types of artifacts whose content is a value, and the Python types of the value. Other steps can take the value as
a parameter.
"""


def value_of(kind: str, raw: Any) -> Any:
    """Return the value of an artifact of type `kind`, a key of VALUES.

    `raw` is the bytes of the artifact's file, or a value decoded from JSON. Raises ValueError if `raw` does not fit the
    type, or has more than 100 levels of nesting.
    """
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
    if reaches(value, _MAX_DEPTH + 1):  # recursive code that reads the value later must not reach Python's limit
        raise ValueError(f"it has more than {_MAX_DEPTH} levels of nesting")
    return value


def _truth(text: str) -> str:
    """Return the JSON text for the text of a Boolean: `true` for `1`, `True` or `true`."""
    return {"1": "true", "0": "false"}.get(text.strip(), text.lower())


ArtifactTypeName = type[ArtifactType] | str


def type_name(given: ArtifactTypeName) -> str:
    """Return the name of a type. Raises TypeError if `given` is not a valid type."""
    name = given if isinstance(given, str) else getattr(given, "TYPE_NAME", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{given!r} is not a type of artifacts: a type is a name, or a class with a TYPE_NAME")
    return name
