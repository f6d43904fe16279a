"""What a platform config can say about a pod: layers that are laid over the launcher's own pod, one after the other."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from tfoperator.launcher.core import PlatformConfig, PlatformConfigError

Json = dict[str, Any]

_CONFIG = "config"  # the origin of a layer that was not named


class PodLayer(msgspec.Struct, frozen=True):
    """A strategic merge patch of a pod (`metadata`, `spec`), and where it comes from."""

    patch: Json
    origin: str = _CONFIG


class KubernetesPodPlatformConfig(PlatformConfig):
    """What is laid over the launcher's pod: a pod spec, labels, annotations, or any other metadata.

    `pod_spec` is a dictionary as in a manifest (camelCase), or a `V1PodSpec` of the kubernetes package. Its container
    `main` is the component's. Layers are kept apart and applied one after the other when the pod is made, each as a
    strategic merge patch, so directives (`$patch: delete`) work in each.
    """

    def __init__(
        self,
        pod_spec: Any = None,
        *,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Raises PlatformConfigError for what is no pod spec."""
        meta = dict(metadata or {})
        for field, values in (("labels", labels), ("annotations", annotations)):
            if values:
                meta[field] = {**(meta.get(field) or {}), **values}
        patch: Json = {"metadata": meta} if meta else {}
        if pod_spec is not None:
            patch["spec"] = _as_dict(pod_spec)
        self.layers: tuple[PodLayer, ...] = (PodLayer(copy.deepcopy(patch)),) if patch else ()

    def named(self, origin: str) -> Self:
        """The same layers, marked with where they come from."""
        return self._with(tuple([PodLayer(layer.patch, origin) for layer in self.layers]))

    def as_json(self) -> Json:
        """The layers, oldest first."""
        return {"layers": [layer.patch for layer in self.layers]}

    def _merged(self, new: Self) -> Self:
        return self._with((*self.layers, *new.layers))

    def _with(self, layers: tuple[PodLayer, ...]) -> Self:
        other = copy.copy(self)
        other.layers = layers
        return other


def _as_dict(value: Any) -> Json:
    """A pod spec as JSON: a dictionary as it is, a model of the kubernetes package without fields that are not set."""
    plain = _plain(value)
    if not isinstance(plain, dict):
        raise PlatformConfigError(f"a pod spec is a dictionary or a V1PodSpec, not {type(value).__name__}")
    return plain


def _plain(value: Any) -> Any:
    names = getattr(value, "attribute_map", None)
    if isinstance(names, dict):  # a generated model: attribute -> JSON name; None is "not set"
        members = {json_name: getattr(value, attribute) for attribute, json_name in names.items()}
        return {name: _plain(member) for name, member in members.items() if member is not None}
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
