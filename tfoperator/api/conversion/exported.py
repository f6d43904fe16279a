"""Makes a manifest of an object that was exported from a cluster. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfoperator.api.conversion.result import Conversion, Note

_SET_BY_SERVERS = (
    "uid",
    "resourceVersion",
    "selfLink",
    "clusterName",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)
"""Members of the metadata that API servers write. API servers refuse some of these members when the object is created
in another cluster, or applied.
"""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Kubectl's annotation with the manifest that it last applied. If the annotation stayed, kubectl would see the old
version there and would undo the conversion.
"""


def without_server_fields(obj: Mapping[str, Any]) -> Conversion:
    """Return the object without the metadata that API servers and kubectl write, and one note about this metadata."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return Conversion(dict(obj))
    left_out = [f"metadata.{name}" for name in _SET_BY_SERVERS if name in metadata]
    kept = {name: value for name, value in metadata.items() if name not in _SET_BY_SERVERS}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        left_out.append(f"metadata.annotations[{_LAST_APPLIED}]")
        kept["annotations"] = {name: value for name, value in annotations.items() if name != _LAST_APPLIED}
        if not kept["annotations"]:
            del kept["annotations"]
    if not left_out:
        return Conversion(dict(obj))
    message = f"{', '.join(left_out)}: left out, because only API servers and kubectl write these fields"
    return Conversion({**obj, "metadata": kept}, (Note("", message),))
