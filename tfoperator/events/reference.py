"""References to the objects that events concern."""

from __future__ import annotations

import msgspec

from tfoperator.kube.objects import ObjectMeta


class ObjectReference(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """`core/v1 ObjectReference`: names one object, or with `field_path` a part of one. Encodes as its JSON."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""

    @classmethod
    def to(cls, api_version: str, kind: str, metadata: ObjectMeta) -> ObjectReference:
        """Refer to an object by its metadata; type and version are given, since decoded views don't carry them."""
        return cls(
            api_version=api_version,
            kind=kind,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        )

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {where}"
