"""Objects seen through who they are and at which version, and nothing else: for comparisons of large collections.

Decoding one takes half the time of a `PartialObject`, and nothing in it is kept for a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from tfoperator.kube.objects import ObjectMeta, PartialObject
from tfoperator.kube.verbs import Decoder, decoder

T = TypeVar("T")


class _Owner(msgspec.Struct, frozen=True, gc=False):
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: tuple[_Owner, ...] = ()


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Any object: name, UID, version and owners."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)

    @property
    def key(self) -> str:
        """As `ObjectMeta.key`."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name

    @property
    def controller_uid(self) -> str:
        """The UID of the owner that controls it, "" for none."""
        return next((owner.uid for owner in self.metadata.owner_references if owner.controller), "")


decode_identity: Decoder[Identity] = decoder(Identity)
"""Decode who an object is. Raises msgspec.DecodeError."""


class _Place(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Placed(msgspec.Struct, frozen=True, gc=False):
    metadata: _Place = msgspec.field(default_factory=_Place)


_decode_place = decoder(_Placed)


def decode_where(wanted: Callable[[str], bool], decode: Decoder[T]) -> Decoder[T | PartialObject]:
    """A decoder that spends little on objects of namespaces that are not wanted.

    Of those it leaves name, namespace and version, by which a list or a watch goes on.
    """

    def decode_wanted(data: bytes) -> T | PartialObject:
        place = _decode_place(data).metadata
        if wanted(place.namespace):
            return decode(data)
        meta = ObjectMeta(name=place.name, namespace=place.namespace, resource_version=place.resource_version)
        return PartialObject(metadata=meta)

    return decode_wanted
