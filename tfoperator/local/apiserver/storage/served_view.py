"""Serving one resource type in several versions: all but one are views of what is stored.

A view is a resource type of its own to all but the store, which keeps objects of the stored version only and converts
at each read and write, as kube-apiserver does. So lists, watches, patches and conflicts are the same in every version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tfoperator.local.apiserver.resource_types import ResourceType

_Dict = dict[str, Any]


class ServedView(msgspec.Struct, frozen=True):
    """A version that is served but not stored. Both conversions may keep and change what they are given."""

    resource: ResourceType
    stored: ResourceType
    to_stored: Callable[[_Dict], _Dict]
    from_stored: Callable[[_Dict], _Dict]
