"""A replica's pod template, two ways: a small typed view to look at, and plain data to make pods from.

A cached TFJob keeps its templates as undecoded JSON (see `v1.types`). Decode one when it is needed and drop it
afterwards. The view describes what is read here; it is also what the CRD's schema types, the rest stays open.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tfoperator.api.names import DEFAULT_CONTAINER_NAME, DEFAULT_PORT, DEFAULT_PORT_NAME
from tfoperator.api.structure import drop_nulls

__all__ = [
    "Container",
    "ContainerPort",
    "PodTemplate",
    "PodTemplateMetadata",
    "PodTemplateSpec",
    "VolumeSource",
    "decode_template",
    "is_absent",
    "template_dict",
]


class ContainerPort(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port that a container listens on."""

    name: str = ""
    container_port: int = 0


class Container(msgspec.Struct, frozen=True, gc=False):
    """A container of the template, trimmed."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()


class PodTemplateMetadata(msgspec.Struct, frozen=True, gc=False):
    """What every pod of the template carries besides our own labels."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PodTemplateSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The part of the pod's spec that somebody here reads."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    restart_policy: str = ""
    scheduler_name: str = ""


class PodTemplate(msgspec.Struct, frozen=True, gc=False):
    """A pod template, trimmed."""

    metadata: PodTemplateMetadata = msgspec.field(default_factory=PodTemplateMetadata)
    spec: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)

    @property
    def training_container_index(self) -> int | None:
        """Position of the container that trains: the one named `tensorflow`, else the first; None without any."""
        for position, container in enumerate(self.spec.containers):
            if container.name == DEFAULT_CONTAINER_NAME:
                return position
        return 0 if self.spec.containers else None

    @property
    def tfjob_port(self) -> int:
        """The port that TF_CONFIG names for this replica: `tfjob-port` of the training container, else 2222."""
        position = self.training_container_index
        ports = () if position is None else self.spec.containers[position].ports
        return next((p.container_port for p in ports if p.name == DEFAULT_PORT_NAME), DEFAULT_PORT)


class VolumeSource(msgspec.Struct, frozen=True, gc=False):
    """Where a volume's content comes from: one member of a pod's volume, besides its name. Nothing here reads it."""


_decode_view = msgspec.json.Decoder(PodTemplate).decode
_decode_any = msgspec.json.Decoder().decode


def is_absent(raw: msgspec.Raw) -> bool:
    """Whether a replica has no template: none at all, or an explicit null."""
    data = bytes(raw)
    return not data or data == b"null"


def decode_template(raw: msgspec.Raw) -> PodTemplate:
    """The typed view of a template; an absent one is empty. Explicit nulls count as absent.

    Raises msgspec.ValidationError if a member has the wrong type.
    """
    if is_absent(raw):
        return PodTemplate()
    try:
        return _decode_view(raw)
    except msgspec.ValidationError:
        value = drop_nulls(_decode_any(raw), PodTemplate)
        return msgspec.convert(value, PodTemplate)


def template_dict(raw: msgspec.Raw) -> dict[str, Any]:
    """The whole template as plain data, new at each call: the caller may change it. An absent one is empty.

    Raises msgspec.ValidationError if the template is not an object.
    """
    if is_absent(raw):
        return {}
    value = _decode_any(raw)
    if not isinstance(value, dict):
        raise msgspec.ValidationError("the pod template must be an object")
    return value
