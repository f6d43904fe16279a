"""Platform configs that users write for pods, and `Pod`, which builds the pod spec of such a config.

A config consists of layers. The layers are merged in order over the pod that the launcher makes.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from tfoperator.kube.patches.strategic_merge import strategic_merge
from tfoperator.kube.views.pod_spec import GPU
from tfoperator.launcher.core.component import Json, PlatformConfig
from tfoperator.launcher.core.errors import PlatformConfigError

MAIN = "main"
"""The name of the component's container in its pod."""

_CONFIG = "config"  # the origin of an unnamed layer


class PodLayer(msgspec.Struct, frozen=True):
    """A strategic merge patch of a pod (`metadata`, `spec`).

    `origin` names the layer in errors and dry runs, for example `default config`.
    """

    patch: Json
    origin: str = _CONFIG


class KubernetesPodPlatformConfig(PlatformConfig):
    """Layers that are merged over the launcher's pod: pod specs, labels, annotations, or other metadata.

    `pod_spec` is a dictionary in the format of a manifest (camelCase), or a `V1PodSpec` of the kubernetes package. In
    this pod spec, the container `main` is the component's container. The constructor makes at most one layer. A merge
    of two configs has the layers of both. The layers are applied in order when the pod is built. Each layer is a
    strategic merge patch, so directives (`$patch: delete`) work in each layer.
    """

    def __init__(
        self,
        pod_spec: Any = None,
        *,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Make a config with one layer, or without a layer if nothing is given.

        `metadata` is the metadata of the layer. `labels` and `annotations` are added to it, and replace equal keys. A
        label or annotation with the value None is removed from the pod. Raises PlatformConfigError if `pod_spec` is
        neither a dictionary nor a V1PodSpec.
        """
        meta = dict(metadata or {})
        for field, values in (("labels", labels), ("annotations", annotations)):
            if values:
                meta[field] = {**(meta.get(field) or {}), **values}
        patch: Json = {"metadata": meta} if meta else {}
        if pod_spec is not None:
            patch["spec"] = _as_dict(pod_spec)
        self.layers: tuple[PodLayer, ...] = (PodLayer(copy.deepcopy(patch)),) if patch else ()

    @property
    def pod_spec(self) -> Json:
        """The pod spec of this config, in the format of a manifest.

        If the config has several layers, the pod spec is the merge of their specs. Each access returns a new copy.
        """
        merged: Json = {"spec": {}}
        for layer in self.layers:
            merged = strategic_merge(merged, {"spec": layer.patch.get("spec") or {}}, "Pod")
        spec: Json = copy.deepcopy(self.layers[0].patch.get("spec") or {}) if len(self.layers) == 1 else merged["spec"]
        return spec

    def named(self, origin: str) -> Self:
        """Return a copy of the config in which `origin` is the origin of all layers (see `PodLayer`)."""
        return self._with(tuple([PodLayer(layer.patch, origin) for layer in self.layers]))

    def as_json(self) -> Json:
        """Return the layers, the oldest layer first."""
        return {"layers": [layer.patch for layer in self.layers]}

    def _merged(self, new: Self) -> Self:
        return self._with((*self.layers, *new.layers))

    def _with(self, layers: tuple[PodLayer, ...]) -> Self:
        other = copy.copy(self)
        other.layers = layers
        return other


def _as_dict(value: Any) -> Json:
    """Return a pod spec as a dictionary in the format of a manifest, from a dictionary or a V1PodSpec.

    Fields of a V1PodSpec that are None are left out. Raises PlatformConfigError for any other type.
    """
    plain = _plain(value)
    if not isinstance(plain, dict):
        raise PlatformConfigError(f"a pod spec must be a dictionary or a V1PodSpec, not {type(value).__name__}")
    return plain


def _plain(value: Any) -> Any:
    names = getattr(value, "attribute_map", None)
    if isinstance(names, dict):  # a model of the kubernetes package; `attribute_map` maps attributes to JSON names
        members = {json_name: getattr(value, attribute) for attribute, json_name in names.items()}
        return {name: _plain(member) for name, member in members.items() if member is not None}
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?\d+)?")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGTPE])(i?)[bB]")


def quantity(field: str, value: str | float) -> str:
    """Return a quantity in Kubernetes' form; `1GB` becomes `1G`, `1GiB` becomes `1Gi`.

    Raises PlatformConfigError, which names `field`, if the value is not a quantity.
    """
    text = str(value).strip()
    if isinstance(value, bool) or not _QUANTITY.fullmatch(text):
        if match := _BYTES.fullmatch(text):  # as in the TFX design: 1GB
            number, unit, binary = match.groups()
            return f"{number}{unit.upper() if binary else ('k' if unit in 'kK' else unit)}{binary}"
        raise PlatformConfigError(f"{field}: must be a quantity such as 2, 500m, 1G or 1Gi, but is {value!r}")
    return text


class Pod:
    """Builds a pod spec: `Pod(cpu=2, memory="1Gi").secret("db", "/db").spec()`.

    It is immutable: each method returns a new Pod. Its container `main` is the component's container. `cpu`, `memory`
    and `gpu` become both limit and request, so the node reserves the whole amount. The constructor raises
    PlatformConfigError for an invalid quantity.
    """

    def __init__(self, cpu: str | float | None = None, memory: str | int | None = None, gpu: int | None = None) -> None:
        wanted = {"cpu": cpu, "memory": memory, GPU: gpu}
        amounts = {name: quantity(name, value) for name, value in wanted.items() if value is not None}
        self._spec: Json = {}
        if amounts:
            self._spec = _main(resources={"limits": amounts, "requests": dict(amounts)})

    def env(self, name: str, value: str) -> Pod:
        """Set an environment variable."""
        return self._with(_main(env=[{"name": name, "value": value}]))

    def secret_env(self, name: str, secret: str, key: str) -> Pod:
        """Set an environment variable to the value of a key in a Secret."""
        source = {"secretKeyRef": {"name": secret, "key": key}}
        return self._with(_main(env=[{"name": name, "valueFrom": source}]))

    def secret(self, name: str, mount_path: str) -> Pod:
        """Mount a Secret as a read-only folder, with a file for each key."""
        return self.volume(f"secret-{name}", mount_path, {"secret": {"secretName": name}}, read_only=True)

    def use_gcp_secret(self, name: str = "user-gcp-sa") -> Pod:
        """Mount a Secret that contains the credentials of a Google service account, and name them in the environment.

        The credentials must be the value of `NAME.json` in the Secret's data, if the Secret is named NAME. The variable
        GOOGLE_APPLICATION_CREDENTIALS is set to the path of the mounted file, `/secret/NAME/NAME.json`.
        """
        path = f"/secret/{name}"
        return self.secret(name, path).env("GOOGLE_APPLICATION_CREDENTIALS", f"{path}/{name}.json")

    def claim(self, name: str, mount_path: str, *, sub_path: str = "") -> Pod:
        """Mount a PersistentVolumeClaim, or with `sub_path` a folder in it."""
        return self.volume(name, mount_path, {"persistentVolumeClaim": {"claimName": name}}, sub_path=sub_path)

    def volume(self, name: str, mount_path: str, source: Json, *, read_only: bool = False, sub_path: str = "") -> Pod:
        """Mount a volume of any source, for example `{"emptyDir": {}}`, or with `sub_path` a folder in the volume."""
        mount: Json = {"name": name, "mountPath": mount_path}
        if sub_path:
            mount["subPath"] = sub_path
        if read_only:
            mount["readOnly"] = True
        return self._with({"volumes": [{"name": name, **source}], **_main(volumeMounts=[mount])})

    def service_account(self, name: str) -> Pod:
        """Run as a service account."""
        return self._with({"serviceAccountName": name})

    def node_selector(self, **labels: str) -> Pod:
        """Run only on nodes with these labels."""
        return self._with({"nodeSelector": labels})

    def toleration(self, key: str, *, effect: str = "NoSchedule", value: str | None = None) -> Pod:
        """Add a toleration for a taint with this key and effect. Without `value`, it tolerates any value."""
        toleration = {"key": key, "operator": "Exists" if value is None else "Equal", "effect": effect}
        if value is not None:
            toleration["value"] = value
        return self._with({"tolerations": [*self._spec.get("tolerations", []), toleration]})

    def image_pull_secret(self, name: str) -> Pod:
        """Pull images with the credentials in a Secret (`imagePullSecrets`)."""
        return self._with({"imagePullSecrets": [{"name": name}]})

    def spec(self) -> Json:
        """Return the pod spec as a new value."""
        return strategic_merge({"spec": self._spec}, {}, "Pod")["spec"] if self._spec else {}

    def _with(self, patch: Json) -> Pod:
        other = Pod()
        other._spec = strategic_merge({"spec": self._spec}, {"spec": patch}, "Pod")["spec"]
        return other


def _main(**fields: Any) -> Json:
    return {"containers": [{"name": MAIN, **fields}]}
