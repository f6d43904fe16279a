"""The JSON document output.json: the members that tfoperator defines, and the members that KFP programs write.

KFP is Kubeflow Pipelines. The module does no I/O.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.launcher.core.component import Artifact, Json

OUTPUT_FILE = "output.json"

MAX_OUTPUT_BYTES = 1 << 20
"""The maximum size of output.json in bytes. It is enough for thousands of artifacts. A larger file is malformed."""


class MalformedOutput(Exception):
    """output.json exists, but is invalid. The message contains the reason."""


class ErrorStatus(msgspec.Struct, frozen=True):
    """The member `error_status`: the component has failed. A retry can help only if the code is RETRYABLE_ERROR."""

    code: Literal["PERMANENT_ERROR", "RETRYABLE_ERROR"] = "PERMANENT_ERROR"
    message: str = ""

    @property
    def retryable(self) -> bool:
        """Whether a retry can help."""
        return self.code == "RETRYABLE_ERROR"


class OutputArtifact(Artifact, frozen=True, omit_defaults=True):
    """An artifact in output.json. Without a URI, the artifact is at its planned URI."""

    uri: str = ""


class Output(msgspec.Struct, frozen=True):
    """The content of output.json.

    `outputs` has an artifact (`{"uri": ..., "properties": {...}}`) or a list of artifacts for each name. `outputs` and
    `exec_properties` replace the planned outputs and parameters. Programs of Kubeflow Pipelines write `parameterValues`
    and `artifacts` in place of `outputs`: `parse_output` accepts these, too. Unknown members are ignored, as the TFX
    design requires.
    """

    error_status: ErrorStatus | None = None
    outputs: dict[str, OutputArtifact | list[OutputArtifact]] = {}
    exec_properties: dict[str, Any] = {}

    def artifacts(self) -> dict[str, tuple[Artifact, ...]]:
        """Return the artifacts of each output, by the name of the output, always as a tuple."""
        lists = {name: [entry] if isinstance(entry, Artifact) else entry for name, entry in self.outputs.items()}
        return {
            name: tuple([Artifact(artifact.uri, artifact.properties) for artifact in these])
            for name, these in lists.items()
        }


class _KfpArtifact(msgspec.Struct, frozen=True):
    uri: str = ""
    metadata: dict[str, Any] = {}


class _KfpArtifacts(msgspec.Struct, frozen=True):
    artifacts: list[_KfpArtifact] = []


class _KfpOutput(msgspec.Struct, frozen=True):
    """ExecutorOutput of Kubeflow Pipelines, https://github.com/kubeflow/pipelines (api/v2alpha1)."""

    parameters: dict[str, Any] = msgspec.field(default={}, name="parameterValues")
    artifacts: dict[str, _KfpArtifacts] = {}


def _as_artifact(given: _KfpArtifact) -> OutputArtifact:
    return OutputArtifact(given.uri, given.metadata)


def _as_ours(given: _KfpOutput) -> dict[str, OutputArtifact | list[OutputArtifact]]:
    """Convert a document of Kubeflow Pipelines into `Output.outputs`. A parameter becomes the property `value`.

    TFX's programs write some outputs both as a parameter and as an artifact: the result has both in one artifact.
    """
    outputs: dict[str, OutputArtifact | list[OutputArtifact]] = {
        name: list(map(_as_artifact, these.artifacts)) for name, these in given.artifacts.items()
    }
    for name, value in given.parameters.items():
        first = next(iter(given.artifacts.get(name, _KfpArtifacts()).artifacts), _KfpArtifact())
        outputs[name] = OutputArtifact(first.uri, {**first.metadata, "value": value})
    return outputs


_decode = msgspec.json.Decoder(Output).decode
_decode_kfp = msgspec.json.Decoder(_KfpOutput).decode


def parse_report(document: Any) -> tuple[Json, dict[str, Json]]:
    """Return the parameters, and the properties of each output, in the document of a `preCacheCheck` program.

    This program of Kubeflow Pipelines runs before the program of a task, and can change the task's parameters. Raises
    MalformedOutput if the document does not have the format of Kubeflow Pipelines.
    """
    try:
        report = msgspec.convert(document, _KfpOutput)
    except UNDECODABLE as error:
        raise MalformedOutput(f"{OUTPUT_FILE} can't be read: {error}") from error
    firsts = {name: these.artifacts[0] for name, these in report.artifacts.items() if these.artifacts}
    return report.parameters, {name: first.metadata for name, first in firsts.items()}


def parse_output(data: bytes, known_outputs: frozenset[str] | None = None) -> Output:
    """Decode an output.json. Raises MalformedOutput, also for an output that is not in `known_outputs`."""
    if len(data) > MAX_OUTPUT_BYTES:
        raise MalformedOutput(f"{OUTPUT_FILE} is larger than {MAX_OUTPUT_BYTES} bytes")
    try:
        output = _decode(data)
        if not output.outputs and (b'"parameterValues"' in data or b'"artifacts"' in data):
            output = msgspec.structs.replace(output, outputs=_as_ours(_decode_kfp(data)))
    except UNDECODABLE as error:
        raise MalformedOutput(f"{OUTPUT_FILE} can't be read: {error}") from error
    stray = sorted(output.outputs.keys() - known_outputs) if known_outputs is not None else []
    if stray:
        raise MalformedOutput(f"{OUTPUT_FILE} has outputs that the component does not have: {', '.join(stray)}")
    return output
