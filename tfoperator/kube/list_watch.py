"""Lists and watches of one selection, as a reflector needs them: on connections of their own, which it can end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tfoperator.kube.options import LIST_ALL, WATCH_FROM_NOW, ListOptions, Selection, WatchOptions, select
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import ApiClient, Decoder, ListPage, WatchStream

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
        selection: Selection,
    ) -> None:
        """`cancel` ends everything that `client` is doing, and is to be used for this selection alone."""
        self._client = client
        self._cancel = cancel
        self._objects = (resource, namespace, decode)
        self._selection = selection

    def cancel(self) -> None:
        """Make requests under way (waiting, connecting, reading) and to come raise ClientClosed; end watches."""
        self._cancel()

    def list(self, options: ListOptions = LIST_ALL) -> ListPage[T]:
        """A page of the selection; see `ApiClient.list`."""
        return self._client.list(*self._objects, select(options, self._selection))

    def watch(self, options: WatchOptions = WATCH_FROM_NOW) -> WatchStream[T]:
        """Follow the selection; see `ApiClient.watch`."""
        return self._client.watch(*self._objects, select(options, self._selection))
