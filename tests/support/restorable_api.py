"""A fake API server that can be restored from a backup: its versions go back, and no watch tells of that."""

import copy
from collections.abc import Callable
from typing import Any

from tests.support.fake_api import FakeApi, FakeWatch
from tfoperator.kube.options import WatchOptions
from tfoperator.kube.resources import Resource

_FROM_NOW = WatchOptions()


class RestorableApi(FakeApi):
    """A watch that asks for a future version is accepted, and silent until that has come, as kube-apiserver's."""

    def backup(self) -> Any:
        """The state of the server, to be given to `restore`."""
        with self._lock:
            return copy.deepcopy((self._version, self._objects, self._history))

    def restore(self, backup: Any) -> None:
        """Become what the backup has; every watch ends, as when the server is started anew."""
        with self._lock:
            self._version, self._objects, self._history = copy.deepcopy(backup)
        self.end_watches()

    def pass_version(self, version: int) -> None:
        """Much is written elsewhere, until this version is passed."""
        with self._lock:
            self._version = version

    @property
    def version(self) -> int:
        """That of the last write."""
        return self._version

    def set_back(self, resource: Resource, obj: dict[str, Any]) -> None:
        """Hold an object as it was, its version included, without an event."""
        meta = obj["metadata"]
        with self._lock:
            self._objects[(resource.plural, meta["namespace"], meta["name"])] = copy.deepcopy(obj)

    def watch(
        self, resource: Resource, namespace: str, decode: Callable[[bytes], Any], options: WatchOptions = _FROM_NOW
    ) -> FakeWatch:
        with self._lock:
            watch = super().watch(resource, namespace, decode, options)
            if not options.send_initial_events:
                _begin_after(watch, int(options.resource_version or 0))
        return watch


def _begin_after(watch: FakeWatch, version: int) -> None:
    push = watch.push

    def filtered(kind: str, obj: dict[str, Any]) -> None:
        if kind == "BOOKMARK" or int(obj["metadata"]["resourceVersion"]) > version:
            push(kind, obj)

    watch.push = filtered  # type: ignore[method-assign]
