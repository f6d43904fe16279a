"""Lists and watches of one selection, as a reflector wants them: with its own connections, cut off at its own word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient, Decoder, ListPage, WatchStream

__all__ = ["ListWatch"]

T = TypeVar("T")


class ListWatch(Generic[T]):
    """A `ListerWatcher` for one selection of a resource. Thread-safe."""

    def __init__(
        self,
        client: ApiClient,
        cancel: Callable[[], None],
        resource: Resource,
        namespace: str,
        decode: Decoder[T],
        label_selector: str,
        field_selector: str,
    ) -> None:
        """`cancel` ends everything that `client` is doing, and is to be used for this selection alone."""
        self._client = client
        self._cancel = cancel
        self._selection = (resource, namespace, decode)
        self._labels = label_selector
        self._fields = field_selector

    def cancel(self) -> None:
        """Make requests under way (waiting, connecting, reading) and to come raise ClientClosed; end watches."""
        self._cancel()

    def list(
        self,
        *,
        resource_version: str = "",
        resource_version_match: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ListPage[T]:
        """A page of the selection; see `ApiClient.list`."""
        return self._client.list(
            *self._selection,
            label_selector=self._labels,
            field_selector=self._fields,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
            limit=limit,
            continue_token=continue_token,
        )

    def watch(
        self,
        *,
        resource_version: str = "",
        resource_version_match: str = "",
        timeout_seconds: int = 300,
        allow_watch_bookmarks: bool = True,
        send_initial_events: bool | None = None,
    ) -> WatchStream[T]:
        """Follow the selection; see `ApiClient.watch`."""
        return self._client.watch(
            *self._selection,
            label_selector=self._labels,
            field_selector=self._fields,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
            timeout_seconds=timeout_seconds,
            allow_watch_bookmarks=allow_watch_bookmarks,
            send_initial_events=send_initial_events,
        )
