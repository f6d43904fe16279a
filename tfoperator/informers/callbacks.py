"""A handler made of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Callbacks(Generic[T]):
    """A `ResourceEventHandler` that calls `changed` for each object added or updated, `gone` for each deleted."""

    def __init__(
        self, *, changed: Callable[[T], object] = lambda _: None, gone: Callable[[T], object] = lambda _: None
    ) -> None:
        self._changed = changed
        self._gone = gone

    def on_add(self, obj: T, *, initial: bool) -> None:  # noqa: ARG002 - the protocol's signature
        """An object is there."""
        self._changed(obj)

    def on_update(self, old: T, new: T) -> None:  # noqa: ARG002 - the protocol's signature
        """An object has changed."""
        self._changed(new)

    def on_delete(self, obj: T, *, final_state_unknown: bool) -> None:  # noqa: ARG002 - the protocol's signature
        """An object is gone."""
        self._gone(obj)
