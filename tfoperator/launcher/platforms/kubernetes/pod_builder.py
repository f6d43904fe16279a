"""Builds a pod spec, for configs written in Python: `Pod(cpu=2, memory="1Gi").secret("db", "/db").spec()`."""

from __future__ import annotations

import re
from typing import Any

from tfoperator.kube.patches import strategic_merge
from tfoperator.kube.pod_spec import GPU
from tfoperator.launcher.core import PlatformConfigError
from tfoperator.launcher.platforms.kubernetes.layers import MAIN

Json = dict[str, Any]


_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?\d+)?")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGTPE])(i?)[bB]")


def quantity(field: str, value: str | float) -> str:
    """The quantity as Kubernetes wants it; `1GB` is its `1G`, and `1GiB` its `1Gi`. Raises PlatformConfigError."""
    text = str(value).strip()
    if isinstance(value, bool) or not _QUANTITY.fullmatch(text):
        if match := _BYTES.fullmatch(text):  # as the TFX design writes it: 1GB
            number, unit, binary = match.groups()
            return f"{number}{unit.upper() if binary else ('k' if unit in 'kK' else unit)}{binary}"
        raise PlatformConfigError(f"{field}: {value!r} is no quantity: write it like 2, 500m, 1G or 1Gi")
    return text


class Pod:
    """Builds a pod spec whose container `main` is the component's. Immutable: every method returns another builder.

    Numbers become limits and requests alike, so that the pod gets what it may use. Raises PlatformConfigError.
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
        """Set an environment variable to a key of a secret."""
        source = {"secretKeyRef": {"name": secret, "key": key}}
        return self._with(_main(env=[{"name": name, "valueFrom": source}]))

    def secret(self, name: str, mount_path: str) -> Pod:
        """Mount a secret, read-only."""
        return self.volume(f"secret-{name}", mount_path, {"secret": {"secretName": name}}, read_only=True)

    def use_gcp_secret(self, name: str = "user-gcp-sa") -> Pod:
        """Mount a Google service account's key and tell Google's libraries where it is."""
        path = f"/secret/{name}"
        return self.secret(name, path).env("GOOGLE_APPLICATION_CREDENTIALS", f"{path}/{name}.json")

    def claim(self, name: str, mount_path: str, *, sub_path: str = "") -> Pod:
        """Mount a persistent volume claim, or a folder of it."""
        return self.volume(name, mount_path, {"persistentVolumeClaim": {"claimName": name}}, sub_path=sub_path)

    def volume(self, name: str, mount_path: str, source: Json, *, read_only: bool = False, sub_path: str = "") -> Pod:
        """Mount a volume of any source, e.g. `{"emptyDir": {}}`, or a folder of it."""
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
        """Tolerate a taint, in addition to the others."""
        one = {"key": key, "operator": "Exists" if value is None else "Equal", "effect": effect}
        if value is not None:
            one["value"] = value
        return self._with({"tolerations": [*self._spec.get("tolerations", []), one]})

    def image_pull_secret(self, name: str) -> Pod:
        """Pull images with a secret."""
        return self._with({"imagePullSecrets": [{"name": name}]})

    def spec(self) -> Json:
        """The pod spec, a value of its own."""
        return strategic_merge({"spec": self._spec}, {}, "Pod")["spec"] if self._spec else {}

    def _with(self, patch: Json) -> Pod:
        other = Pod()
        other._spec = strategic_merge({"spec": self._spec}, {"spec": patch}, "Pod")["spec"]
        return other


def _main(**fields: Any) -> Json:
    return {"containers": [{"name": MAIN, **fields}]}
