"""Is what an annotation restores as v1 wants it? Pure.

An API server checks a v1alpha2 job by v1alpha2's rules and stores what it is converted to without another look. What
comes from the annotation no rule has seen by then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from tfoperator.api.conversion.preserved import V1_ONLY
from tfoperator.api.conversion.result import ConversionError
from tfoperator.api.problems import errors
from tfoperator.api.v1.types import decode_tfjob
from tfoperator.api.validation import validate
from tfoperator.kube.errors import UNDECODABLE

_REPLICAS = "spec.tfReplicaSpecs"


def check_restored(job: Mapping[str, Any], members: Collection[str]) -> None:
    """Raises ConversionError for the first of these members of a v1 job's spec that v1 refuses.

    What the annotation does not hold is left to the rules that have seen it: they may accept what is older than they
    are, and an API server may ask about a part of a job. The name counts where a TensorBoard is to be named by it.
    """
    spec = job.get("spec")
    if not members or not isinstance(spec, dict):
        return
    metadata = job.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    restored = {member: spec[member] for member in members if member in spec}
    alone = {"metadata": {"name": name if isinstance(name, str) else ""}, "spec": {**restored, "tfReplicaSpecs": {}}}
    judged = (_REPLICAS,) if "tensorBoard" in restored else (_REPLICAS, "metadata.name")
    annotation = f"metadata.annotations[{V1_ONLY}]"
    try:
        decoded = decode_tfjob(msgspec.json.encode(alone))
    except UNDECODABLE as error:
        raise ConversionError(annotation, f"spec: {error}") from None
    for problem in errors(validate(decoded)):
        if problem.field not in judged:
            raise ConversionError(annotation, f"{problem.field}: {problem.message}")
