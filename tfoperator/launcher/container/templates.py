"""Placeholders in an image, a command and arguments.

There are three forms of placeholders. Values replace them, and the text around them stays unchanged:

    {{ inputs.NAME.uri }} {{ outputs.NAME.uri }} {{ exec_properties.NAME }}, or the short form {{ exec_props.NAME }}

There are no expressions. An inserted value is not expanded again, so a value can't inject a placeholder. The kubelet
expands `$(NAME)` in commands and arguments. So for Kubernetes, values are escaped, and the program gets them unchanged.
Any other text after `{{` is an error, which is found before anything runs. To pass text with `{{` to a program, use a
parameter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tfoperator.kube.views.pod_spec import verbatim
from tfoperator.launcher.core.component import TMP_PATH, ArtifactDict, ExecutorContainerSpec
from tfoperator.launcher.core.errors import TemplateError

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_-]*"
_PLACEHOLDER = re.compile(
    rf"\{{\{{[ \t]*(?:(?P<artifacts>inputs|outputs)\.(?P<artifact>{_NAME})\.uri"
    rf"|exec_prop(?:s|erties)\.(?P<parameter>{_NAME}))[ \t]*\}}\}}|(?P<bad>\{{\{{)"
)
_DOLLAR = re.compile(r"\$(?:\$|\([^)]*\)|\(|)")
"""A text that begins with `$`, as Kubernetes parses it: `$$` (an escaped dollar), `$(NAME)`, an unclosed `$(`, or a `$`
alone.
"""
_MAX_SHOWN = 40  # characters of a bad placeholder in a message


class Bindings(msgspec.Struct, frozen=True):
    """The values that replace the placeholders of a container."""

    inputs: ArtifactDict = {}
    outputs: ArtifactDict = {}
    exec_properties: Mapping[str, Any] = {}
    places: Mapping[str, str] = {}
    """The paths of artifacts that the program reads as files, by the artifacts' URLs in an object store."""


class _Problem(Exception):
    """A placeholder can't be replaced. The text is the reason."""


def render_container(
    name: str, spec: ExecutorContainerSpec, bindings: Bindings, *, for_kubernetes: bool = False
) -> ExecutorContainerSpec:
    """Return the container of the component `name` with values in place of all placeholders.

    `for_kubernetes` means that the kubelet will expand `$(NAME)` in the command and arguments. Then `$` in a value is
    escaped. A reference `$(NAME)` stays a reference only if the template itself contains all of it. Raises
    TemplateError, which lists all invalid placeholders.
    """
    ready = spec.words(bindings.inputs, bindings.outputs, bindings.exec_properties, bindings.places)
    if ready is not None:
        command, args = (tuple([verbatim(word) if for_kubernetes else word for word in side]) for side in ready)
        return ExecutorContainerSpec(spec.image, command, args)
    problems: list[str] = []

    def rendered(field: str, text: str, *, escape: bool) -> str:
        parts: list[str] = []
        at = 0
        for match in _PLACEHOLDER.finditer(text):
            before = text[at : match.start()]
            parts.append(_closed(before) if escape else before)
            at = match.end()
            try:
                value = _value(match, bindings)
                parts.append(verbatim(value) if escape else value)
            except _Problem as problem:
                problems.append(f"{field}: {problem}")
        return "".join([*parts, text[at:]])

    image = rendered("image", spec.image, escape=False)
    command = tuple([rendered(f"command[{i}]", word, escape=for_kubernetes) for i, word in enumerate(spec.command)])
    args = tuple([rendered(f"args[{i}]", word, escape=for_kubernetes) for i, word in enumerate(spec.args)])
    if not problems and not image.strip():
        problems.append("image: must not be empty after the placeholders are replaced")
    if problems:
        raise TemplateError(name, tuple(problems))
    return ExecutorContainerSpec(image, command, args)


def _closed(text: str) -> str:
    """Return the text of a template before a placeholder, escaped for Kubernetes.

    An unclosed `$(`, or a `$` at the end, is escaped. Otherwise the value of the placeholder could complete a
    reference: `$(` and the value `HOME)` would make `$(HOME)`.
    """
    return _DOLLAR.sub(lambda m: "$" + m[0] if m[0] == "$(" or (m.end() == len(text) and m[0] == "$") else m[0], text)


def rendered_value(value: Any) -> str:
    """Return a parameter as text. Strings are unchanged, and all other values become JSON (`20`, `true`, `[1,2]`)."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _value(piece: re.Match[str], bindings: Bindings) -> str:
    if piece["bad"]:
        bad = piece.string[piece.start() : piece.start() + _MAX_SHOWN]
        raise _Problem(
            f"{bad!r} is not a placeholder; the placeholders are {{{{ inputs.NAME.uri }}}}, {{{{ outputs.NAME.uri "
            "}} and {{ exec_properties.NAME }}"
        )
    if name := piece["parameter"]:
        properties = bindings.exec_properties
        if name not in properties:
            raise _Problem(_unknown(piece[0], "parameter", name, [p for p in properties if p != TMP_PATH]))
        if properties[name] is None:
            raise _Problem(f"{piece[0]}: the parameter {name!r} has no value")
        try:
            return rendered_value(properties[name])
        except (TypeError, ValueError) as error:
            raise _Problem(f"{piece[0]}: the parameter {name!r} must be JSON: {error}") from error
    kind, name = piece["artifacts"], piece["artifact"]
    artifacts = bindings.inputs if kind == "inputs" else bindings.outputs
    if name not in artifacts:
        raise _Problem(_unknown(piece[0], kind.removesuffix("s"), name, list(artifacts)))
    if not artifacts[name]:
        raise _Problem(f"{piece[0]}: the {kind.removesuffix('s')} {name!r} has no artifact")
    return ",".join(artifact.uri for artifact in artifacts[name])


def _unknown(placeholder: str, kind: str, name: str, known_names: Sequence[str]) -> str:
    there = f"there are {', '.join(sorted(known_names))}" if known_names else f"the component has no {kind}s"
    return f"{placeholder}: the component has no {kind} {name!r}; {there}"
