"""Watches: all changes of a selection from a starting revision, in order, without gaps.

A `Watcher` collects a line for each change in the store. The HTTP response of the watch takes these lines and sends
them. Both run in the server's event loop, so the watcher misses no change between the initial state and the first
change that it observes. If an object begins to match the selection, the watch sends ADDED. If an object no longer
matches, the watch sends DELETED.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from tfoperator.local.apiserver.display.representation import Representation
from tfoperator.local.apiserver.errors import StatusError, expired, not_supported
from tfoperator.local.apiserver.resource_types import ResourceType
from tfoperator.local.apiserver.storage.listing import ListRequest, match_forbidden, parse_revision, too_large
from tfoperator.local.apiserver.storage.store import Compacted, Store, StoreChange, StoredObject, encode

_MATCH = "resourceVersionMatch"
BACKLOG_LIMIT = 10_000
"""The maximum number of lines that wait until a client receives them. If more lines wait, the server ends the watch of
this client. So a client that doesn't read can't fill the memory. The client then starts a new watch from the last
version that it received, or relists.
"""


def check_watch_options(options: ListRequest) -> None:
    """Raise StatusError 422 for options that a watch does not allow together."""
    if options.send_initial_events is None:
        if options.match:
            supported = ("NotOlderThan",)
            wrong = [] if options.match in supported else [not_supported(_MATCH, options.match, supported)]
            raise match_forbidden(f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided", *wrong)
    elif options.match != "NotOlderThan":
        raise match_forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")


class Watcher:
    """One watch: its selection, its format, and the lines that are not sent yet."""

    def __init__(
        self,
        store: Store,
        resource: ResourceType,
        namespace: str,
        options: ListRequest,
        form: Representation,
        *,
        backlog_limit: int = BACKLOG_LIMIT,
    ) -> None:
        """Collect the initial events, and observe all changes from now on.

        Raises StatusError 400 if the resourceVersion is invalid. Raises 504 if the client requests initial events at a
        revision that this server has not reached. If the server does not have the changes since the requested revision,
        the watch sends an ERROR event and ends.
        """
        self._store = store
        self._resource = resource
        self._prefix = f"{namespace}/" if namespace else ""
        self._selector = options.selector
        self._form = form
        self._bookmarks = options.allow_bookmarks
        self._backlog_limit = backlog_limit
        self._lines: list[bytes] = []
        self._wake = asyncio.Event()
        self.closed = False
        """Whether no more lines will come."""
        self._unobserve: Callable[[], None] = lambda: None
        self._start(options, namespace)
        if not self.closed:
            self._unobserve = store.observe(self._observe, resource)

    def _start(self, options: ListRequest, namespace: str) -> None:
        revision = parse_revision(options.resource_version)
        initial = options.send_initial_events
        if initial and revision > self._store.revision:
            raise too_large(revision, self._store.revision)
        if initial or (initial is None and revision == 0):
            for stored in self._store.objects(self._resource, namespace):
                if self._selector.matches(stored.obj):
                    self._put(self._form.event("ADDED", stored))
            if initial and self._bookmarks:
                self._put(self._form.bookmark(self._store.revision, initial_events_end=True))
        elif revision:
            self._replay(revision)

    def _replay(self, revision: int) -> None:
        try:
            if revision > self._store.revision:
                # Only a client of an earlier server can know a future revision; waiting for it could take forever.
                raise Compacted(self._store.revision)
            for change in self._store.changes_since(self._resource, revision):
                self._observe(change)
        except Compacted as error:
            self._fail(expired(f"too old resource version: {revision} ({error.oldest})"))

    def _fail(self, error: StatusError) -> None:
        """End the watch with an ERROR event. The HTTP status of the response stays 200, as in kube-apiserver."""
        self._put(b'{"type":"ERROR","object":%b}\n' % encode(error.body()))
        self.close()

    def _put(self, line: bytes) -> None:
        self._lines.append(line)
        self._wake.set()

    def _observe(self, change: StoreChange) -> None:
        if not change.last.key.startswith(self._prefix):
            return
        if self._selector.empty:
            type_ = "DELETED" if change.new is None else "ADDED" if change.old is None else "MODIFIED"
            stored = change.last
        else:
            before = change.old is not None and self._selector.matches(change.old.obj)
            after = change.new is not None and self._selector.matches(change.new.obj)
            if not before and not after:
                return
            stored = change.last
            if not after and change.new is not None and change.old is not None:
                # The object has left the selection: send its old state, with the version at which it left.
                stored = StoredObject(change.old.key, change.old.copy(), change.revision)
            type_ = ("MODIFIED" if before else "ADDED") if after else "DELETED"
        self._put(self._form.event(type_, stored))
        if len(self._lines) > self._backlog_limit:
            self.close()

    def bookmark(self) -> None:
        """Send a bookmark for the current revision, if the client has requested bookmarks."""
        if self._bookmarks and not self.closed:
            self._put(self._form.bookmark(self._store.revision, initial_events_end=False))

    def close(self) -> None:
        """End the watch after the lines that are already collected. Idempotent."""
        self.closed = True
        self._unobserve()
        self._unobserve = lambda: None
        self._wake.set()

    def take(self) -> bytes:
        """Return all lines that were collected since the last call."""
        lines, self._lines = self._lines, []
        self._wake.clear()
        return b"".join(lines)

    async def wait(self, deadline: float) -> None:
        """Wait until there are lines, until the watch is closed, or until the loop's time reaches `deadline`."""
        if self._lines or self.closed:
            return
        try:
            async with asyncio.timeout_at(deadline):
                await self._wake.wait()
        except TimeoutError:
            pass


async def lines_of(watcher: Watcher, *, timeout: float, bookmark_interval: float) -> AsyncGenerator[bytes, None]:
    """Yield a watcher's lines until it is closed, or until `timeout` seconds have passed.

    If the client has requested bookmarks, the lines contain a bookmark every `bookmark_interval` seconds, and a last
    bookmark after `timeout`.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    next_bookmark = loop.time() + bookmark_interval
    while True:
        if data := watcher.take():
            yield data
        if watcher.closed:
            if rest := watcher.take():
                yield rest
            return
        await watcher.wait(min(end, next_bookmark))
        now = loop.time()
        if now >= end:
            watcher.bookmark()
            watcher.close()
        elif now >= next_bookmark:
            watcher.bookmark()
            next_bookmark = now + bookmark_interval
