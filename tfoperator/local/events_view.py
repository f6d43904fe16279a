"""Events as people read them: a trimmed view of core/v1 Event."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tfoperator.kube.objects import HasMetadata

__all__ = ["EventView", "decode_event"]


class InvolvedObject(msgspec.Struct, frozen=True):
    """What an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


class EventView(HasMetadata, frozen=True, rename="camel"):
    """One event; `count` grows when the same thing happens again."""

    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    involved_object: InvolvedObject = msgspec.field(default_factory=InvolvedObject)
    last_timestamp: datetime | None = None

    @property
    def subject(self) -> str:
        """`kind/name` of what it is about, the kind in lower case as kubectl writes it."""
        return f"{self.involved_object.kind.lower()}/{self.involved_object.name}"


decode_event = msgspec.json.Decoder(EventView).decode
"""Decodes one event from JSON."""
