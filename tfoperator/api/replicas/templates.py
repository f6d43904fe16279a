"""A replica's pod template, in two forms: a small typed view for reading, and plain data for making pods.

A cached TFJob keeps its templates as undecoded JSON (see `v1.types`). Decode a template when it is needed and drop it
afterwards. The view has only the members that this code reads. A CRD with open templates (`open_templates`) has only
these members in its schema.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec

from tfoperator.api.fields.field import Field
from tfoperator.api.fields.limits import MAX_NAME_LENGTH
from tfoperator.api.fields.structure import drop_nulls
from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME


class TemplatePort(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port that a container listens on."""

    name: Annotated[str, Field("Name of the port.")] = ""
    container_port: Annotated[int, Field("Number of the port.", ge=1, le=65535)] = 0


class TemplateContainer(msgspec.Struct, frozen=True, gc=False):
    """A container of the pods."""

    name: Annotated[str, Field("Name of the container.", schema={"minLength": 1, "maxLength": MAX_NAME_LENGTH})] = ""
    image: Annotated[str, Field("Container image, such as tensorflow/tensorflow:2.20.0.", schema={"minLength": 1})] = ""
    ports: Annotated[
        tuple[TemplatePort, ...],
        Field(
            "Ports of the container. The program listens on the port named tfjob-port, or on 2222 without such a port."
        ),
    ] = ()


class PodTemplateMetadata(msgspec.Struct, frozen=True, gc=False):
    """The labels and annotations of every pod of the template, without the labels that the operator adds."""

    labels: Annotated[dict[str, str], Field("Labels of the pods.")] = {}
    annotations: Annotated[dict[str, str], Field("Annotations of the pods.")] = {}


class PodTemplateSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The members of the pod's spec that this code reads."""

    containers: Annotated[
        tuple[TemplateContainer, ...],
        Field(
            f"The pod's containers; the container named {DEFAULT_CONTAINER_NAME} trains.",
            schema={
                "nullable": True,  # Kueue's webhook writes null where a parameter server has no template
                "minItems": 1,
                "maxItems": 64,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = ()
    init_containers: Annotated[
        tuple[TemplateContainer, ...], Field("Containers that run before the others, one by one.")
    ] = ()
    restart_policy: Annotated[
        str, Field("It has no effect in a template: the operator uses the restartPolicy of the replica type.")
    ] = ""
    scheduler_name: Annotated[str, Field("The scheduler of the pods.")] = ""


class PodTemplate(msgspec.Struct, frozen=True, gc=False):
    """A pod template, reduced to the members that this code reads."""

    metadata: Annotated[
        PodTemplateMetadata,
        Field("Labels and annotations of the pods, in addition to the labels and annotations of the operator."),
    ] = msgspec.field(default_factory=PodTemplateMetadata)
    spec: Annotated[PodTemplateSpec, Field("The pod's spec.")] = msgspec.field(default_factory=PodTemplateSpec)


class NotKept(Exception):
    """Raised if a cache has only a hash of the template: read the job from the API server."""


def hash_of(raw: msgspec.Raw) -> msgspec.Raw:
    """Return the cache's value for a template: a hash, equal for equal text.

    If the argument is already a hash, or there is no template, it is returned unchanged.
    """
    return raw if is_hash(raw) or is_absent(raw) else msgspec.Raw(b"\0" + hashlib.sha256(raw).hexdigest().encode())


def is_hash(raw: msgspec.Raw) -> bool:
    """Return whether the value is a hash and not a template."""
    return bytes(memoryview(raw)[:1]) == b"\0"


class VolumeSource(msgspec.Struct, frozen=True, gc=False):
    """The source of a volume's content: the one member of a pod's volume besides the volume's name.

    Its value is not decoded.
    """


_MAX_EMPTY_SIZE = 256
"""A template with more bytes than this number is not absent: an absent template, as webhooks write it, is far shorter.
"""

_decode_view = msgspec.json.Decoder(PodTemplate).decode
_decode_any = msgspec.json.Decoder().decode


def is_absent(raw: msgspec.Raw) -> bool:
    """Return whether a replica has no template: the template is missing, is an explicit null, or has no content.

    Go programs write a template without content if no template is set. Kueue's webhook turns a replica without a
    template into `{"metadata": {}, "spec": {"containers": null}}`, in every job of a cluster.
    """
    data = bytes(raw)
    if not data or data == b"null":
        return True
    return len(data) <= _MAX_EMPTY_SIZE and b"null" in data and _has_no_content(_decode_any(data))


def _has_no_content(template: object) -> bool:
    """Return whether a template has no content except nulls, with `containers: null` in its spec."""
    if not isinstance(template, dict) or not template.keys() <= {"metadata", "spec"}:
        return False
    metadata, spec = template.get("metadata") or {}, template.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        return False
    return "containers" in spec and all(value is None for value in (*metadata.values(), *spec.values()))


def decode_template(raw: msgspec.Raw) -> PodTemplate:
    """Return the typed view of a template; the view is empty if the template is absent. Explicit nulls count as absent.

    Raises msgspec.ValidationError if a member has the wrong type.
    """
    return PodTemplate() if is_absent(raw) else decode_present_template(raw)


def decode_present_template(raw: msgspec.Raw) -> PodTemplate:
    """Return the typed view of a template; the caller has checked that the template is not absent.

    Explicit nulls count as absent. Raises msgspec.ValidationError as `decode_template` does.
    """
    try:
        return _decode_view(raw)
    except msgspec.ValidationError:
        value = drop_nulls(_decode_any(raw), PodTemplate)
        return msgspec.convert(value, PodTemplate)


def own_host_names(raw: msgspec.Raw) -> list[str]:
    """Return which of the fields `hostname` and `subdomain` a template sets; empty if the template can't be read.

    Raises NotKept for a hash.
    """
    data = bytes(raw)
    if b"hostname" not in data and b"subdomain" not in data and not is_hash(raw):
        return []
    spec = readable_spec(raw)
    return [name for name in ("hostname", "subdomain") if spec.get(name)]


def readable_spec(raw: msgspec.Raw) -> dict[str, Any]:
    """Return the pod spec of a template as plain data; empty if the template can't be read.

    Raises NotKept for a hash.
    """
    try:
        spec = template_dict(raw).get("spec")
    except msgspec.DecodeError:
        return {}
    return spec if isinstance(spec, dict) else {}


def restarts_in_pod(raw: msgspec.Raw) -> bool:
    """Return whether the container `tensorflow` has its own restart rules, or its own restart policy other than Never.

    With these (Kubernetes 1.35), the kubelet may restart the container even if the pod's policy is Never. Raises the
    same errors as `template_dict`.
    """
    spec = template_dict(raw).get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, dict) and container.get("name") == DEFAULT_CONTAINER_NAME:
            return bool(container.get("restartPolicyRules")) or container.get("restartPolicy") not in (
                None,
                "",
                "Never",
            )
    return False


def template_dict(raw: msgspec.Raw) -> dict[str, Any]:
    """Return the template as plain data; each call returns a new object, which the caller may change.

    For an absent template the result is empty. Raises msgspec.ValidationError if the template is not an object, NotKept
    for a hash.
    """
    if is_absent(raw):
        return {}
    if is_hash(raw):
        raise NotKept
    value = _decode_any(raw)
    if not isinstance(value, dict):
        raise msgspec.ValidationError("the pod template must be an object")
    return value
