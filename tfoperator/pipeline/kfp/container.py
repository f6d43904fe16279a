"""The command of a container of the IR, whose placeholders are replaced when its inputs are known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.launcher import Artifact, ComponentError, ExecutorContainerSpec
from tfoperator.launcher.container.templates import rendered_value
from tfoperator.launcher.core.component import TMP_PATH, ArtifactDict, Json
from tfoperator.launcher.core.output_document import OUTPUT_FILE

PLACEHOLDER = re.compile(r"\{\{\$(?P<path>[^{}]*)\}\}")
_PATH = re.compile(
    r"(?P<whole>)|(?P<report>\.outputs\.output_file|\.outputMetadataUri)|\.inputs\.parameters\['(?P<value>[^']+)'\]"
    r"|\.outputs\.parameters\['(?P<file>[^']+)'\]\.output_file"
    r"|\.(?P<side>inputs|outputs)\.artifacts\['(?P<name>[^']+)'\]"
    r"\.(?P<field>uri|path|name|metadata)(?:\['(?P<key>[^']+)'\])?"
)
_MAX_WORD = 128 << 10
"""The maximum size of an argument, of Linux."""


class _Structure(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Words that are joined, or those of one of two kinds."""

    joined: list[str | _Structure] | None = msgspec.field(name="Concat", default=None)
    chosen: _Choice | None = msgspec.field(name="IfPresent", default=None)


class _Choice(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    name: str = msgspec.field(name="InputName")
    then: str | list[str | _Structure] | _Structure = msgspec.field(name="Then")
    otherwise: str | list[str | _Structure] | _Structure = msgspec.field(name="Else", default_factory=list)


class IRContainerSpec(ExecutorContainerSpec, frozen=True, kw_only=True):
    """A container of the IR. `artifacts` has the types of the inputs and outputs, `values` the outputs that are values.

    `optional` are inputs that may be missing. Raises ComponentError for a placeholder of something unknown.
    """

    task: str
    parameters: tuple[str, ...] = ()
    artifacts: Mapping[str, Json] = {}
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for word in (*self.command, *self.args):
            plain = _structure(word)
            text = plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
            for match in PLACEHOLDER.finditer(text):
                self._path(match)

    def words(
        self, inputs: ArtifactDict, outputs: ArtifactDict, properties: Mapping[str, Any]
    ) -> tuple[list[str], list[str]]:
        """Return command and arguments, every placeholder replaced once."""
        known = {"parameterValues": {k: v for k, v in properties.items() if k != TMP_PATH}}
        place = f"{properties[TMP_PATH]}/{OUTPUT_FILE}"
        files = {name: {"outputFile": outputs[name][0].uri} for name in self.values}
        whole = {
            "inputs": {**known, "artifacts": self._lists(inputs)},
            "outputs": {"parameters": files, "artifacts": self._lists(outputs), "outputFile": place},
        }

        def replaced(match: re.Match[str]) -> str:
            return rendered_value(self._value(match, whole))

        def words(given: str | Sequence[str | _Structure] | _Structure) -> Iterator[str]:
            if isinstance(given, str):
                yield PLACEHOLDER.sub(replaced, given)
            elif not isinstance(given, _Structure):
                for one in given:
                    yield from words(one)
            elif (choice := given.chosen) is not None:
                yield from words(choice.then if choice.name in {**properties, **inputs} else choice.otherwise)
            else:
                yield "".join(words(given.joined or ()))

        command, args = (
            [word for one in side for word in words(_structure(one))] for side in (self.command, self.args)
        )
        for word in (*command, *args):
            if len(word.encode()) >= _MAX_WORD or "\0" in word:
                raise ComponentError(f"component {self.task}: an argument has more than {_MAX_WORD} bytes, or NUL")
        return command, args

    def _lists(self, given: ArtifactDict) -> Json:
        return {name: {"artifacts": self._described(name, given[name])} for name in given if name in self.artifacts}

    def _described(self, name: str, given: Sequence[Artifact]) -> list[Json]:
        kind = self.artifacts[name]
        return [{"name": name, "type": kind, "uri": one.uri, "metadata": one.properties} for one in given]

    def _path(self, match: re.Match[str]) -> re.Match[str]:
        path = _PATH.fullmatch(match["path"])
        sides = (("value", self.parameters), ("file", self.values), ("name", self.artifacts))
        if path is None or any(path[group] is not None and path[group] not in known for group, known in sides):
            raise ComponentError(f"component {self.task}: {match[0]} is no placeholder that is known here")
        return path

    def _value(self, match: re.Match[str], whole: Json) -> Any:
        path = self._path(match)
        if path["whole"] is not None:
            return whole
        if path["report"]:
            return whole["outputs"]["outputFile"]
        if path["value"]:
            return whole["inputs"]["parameterValues"].get(path["value"])
        if path["file"]:
            return whole["outputs"]["parameters"][path["file"]]["outputFile"]
        found = whole[path["side"]]["artifacts"].get(path["name"], {"artifacts": []})["artifacts"]
        if not found:
            return None
        value = found[0]["uri" if path["field"] == "path" else path["field"]]
        return value if path["key"] is None or not isinstance(value, dict) else value.get(path["key"])


def _structure(word: str) -> str | _Structure:
    """Return a word, or the structure that it is the JSON of. Raises ComponentError for one of another form."""
    if not word.startswith(('{"Concat":', '{"IfPresent":')):
        return word
    try:
        return msgspec.json.decode(word, type=_Structure)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ComponentError(f"{word[:100]!r} is no placeholder that is known here: {error}") from None
