"""The indexes that a controller of owned objects needs.

client-go has none by owner, so its controllers scan a namespace for every sync of every job; here the children of a
job are one dictionary look-up, and so are the objects that it might adopt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tfoperator.kube.objects import HasMetadata

T = TypeVar("T")

IndexFunction = Callable[[T], Sequence[str]]
"""The values under which an object is found. Pure and quick: it runs under the indexer's lock, twice per update."""

CONTROLLER_UID_INDEX = "controller-uid"
"""Index name: objects by the UID of the owner that controls them. By UID, since a name may be taken anew."""

ORPHANS_INDEX = "orphans"
"""Index name: objects that nobody controls, by their namespace. Controlled ones are not in it at all."""


def index_by_controller_uid(obj: HasMetadata) -> Sequence[str]:
    """For `CONTROLLER_UID_INDEX`."""
    controller = obj.metadata.controller
    return (controller.uid,) if controller is not None else ()


def index_orphans(obj: HasMetadata) -> Sequence[str]:
    """For `ORPHANS_INDEX`."""
    return () if obj.metadata.controller is not None else (obj.metadata.namespace,)
