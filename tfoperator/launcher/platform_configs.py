"""Settings of one platform, kept apart from the component so that the same pipeline runs anywhere.

Configs come in layers: what a runner says for all components, then what it says for one. `merge` puts a new layer on
top; the new one wins, and whatever it states counts, be it `False`, `0` or empty.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from tfoperator.launcher.errors import PlatformConfigError

__all__ = [
    "DockerPlatformConfig",
    "KubernetesPodPlatformConfig",
    "PlatformConfig",
    "PodLayer",
    "TFJobPlatformConfig",
    "merge_values",
]

Json = dict[str, Any]

_CONFIG = "config"  # where a layer comes from, when nobody says more


class PlatformConfig(abc.ABC):
    """Base of all platform configs. Immutable: nothing changes one, `merge` makes another."""

    def merge(self, platform_config: PlatformConfig) -> Self:
        """A config of this one with a newer one on top. PlatformConfigError if that is for another platform."""
        if type(platform_config) is not type(self):
            raise PlatformConfigError(
                f"{type(platform_config).__name__} can't be merged into {type(self).__name__}: "
                "a config only merges with one of its own type"
            )
        return self._merged(platform_config)

    @abc.abstractmethod
    def named(self, origin: str) -> Self:
        """The same config, its layers marked with where they come from: `default config`, `config of trainer`."""

    @abc.abstractmethod
    def _merged(self, new: Self) -> Self: ...

    @abc.abstractmethod
    def as_json(self) -> Json:
        """Everything that it says, to tell it from another."""


class DockerPlatformConfig(PlatformConfig):
    """Arguments of docker-py's `containers.run`, and two of ours.

    `docker_server_url` says which engine (by default what DOCKER_HOST says), `pull` when the image is fetched:
    `missing` (the default), `always` or `never`. Merging is a recursive merge of dictionaries; lists are replaced.
    """

    PULLS = ("missing", "always", "never")
    OURS = frozenset(
        {"image", "command", "entrypoint", "name", "detach", "remove", "auto_remove", "stream", "stdout", "stderr"}
    )
    """What the launcher decides; a config that has one of these is refused."""

    def __init__(self, **run_kwargs: Any) -> None:
        """Raises PlatformConfigError for an argument that the launcher itself decides."""
        if taken := sorted(self.OURS & run_kwargs.keys()):
            raise PlatformConfigError(
                f"docker: {', '.join(taken)}: the launcher decides that (image and command are the component's)"
            )
        if run_kwargs.get("pull", "missing") not in self.PULLS:
            raise PlatformConfigError(f"docker: pull: {run_kwargs['pull']!r} is none of {', '.join(self.PULLS)}")
        self._run_kwargs = copy.deepcopy(run_kwargs)

    @property
    def run_kwargs(self) -> Json:
        """A copy of the arguments, ours among them."""
        return copy.deepcopy(self._run_kwargs)

    def named(self, origin: str) -> Self:
        """The same: what docker is told does not say where it comes from."""
        del origin
        return self

    def as_json(self) -> Json:
        """The arguments."""
        return self.run_kwargs

    def _merged(self, new: Self) -> Self:
        return type(self)(**merge_values(self._run_kwargs, new._run_kwargs))


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


class TFJobPlatformConfig(KubernetesPodPlatformConfig):
    """Launches the component's container in every replica of a TFJob, so that one step trains on many pods.

    `replicas` says how many of which type, e.g. `{"PS": 1, "Worker": 4}`; `spec` is merged into the TFJob's spec (RFC
    7386), for a run policy, a restart policy or a type's own template. The pod spec is laid over every replica's
    template; its container `main` is called `tensorflow` there, as in every TFJob.
    """

    def __init__(
        self,
        replicas: Mapping[str, int] | None = None,
        *,
        spec: Mapping[str, Any] | None = None,
        pod_spec: Any = None,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(pod_spec, labels=labels, annotations=annotations, metadata=metadata)
        self.replicas: Mapping[str, int] = dict(replicas or {})
        self.spec: Json = copy.deepcopy(dict(spec or {}))
        for kind, count in self.replicas.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise PlatformConfigError(f"tfjob: replicas: {kind}: {count!r} is no number of replicas")

    def as_json(self) -> Json:
        """The layers, the replicas and the spec."""
        return {**super().as_json(), "replicas": dict(self.replicas), "spec": self.spec}

    def _merged(self, new: Self) -> Self:
        merged = super()._merged(new)
        merged.replicas = {**self.replicas, **new.replicas}
        merged.spec = merge_values(self.spec, new.spec)
        return merged


def merge_values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """Dictionaries merged recursively; everything else of the newer one replaces. Shares nothing with either."""
    merged = copy.deepcopy(dict(old))
    for key, value in new.items():
        before = merged.get(key)
        both = isinstance(before, dict) and isinstance(value, Mapping)
        merged[key] = merge_values(before, value) if both else copy.deepcopy(value)  # type: ignore[arg-type]
    return merged


def _as_dict(value: Any) -> Json:
    """A pod spec as JSON: a dictionary as it is, a model of the kubernetes package without what nobody has set."""
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
