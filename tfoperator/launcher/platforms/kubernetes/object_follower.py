"""Follows one object in a thread and puts every state of it into a mailbox, whatever the API does meanwhile."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Generic, TypeVar

import msgspec

from tfoperator.kube import by_name
from tfoperator.kube.client import Client
from tfoperator.kube.errors import KubeError
from tfoperator.kube.following import Follower
from tfoperator.kube.objects import HasMetadata
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import Decoder, WatchEventType
from tfoperator.launcher.container import Mailbox

V = TypeVar("V", bound=HasMetadata)


class Gone(msgspec.Struct, frozen=True):
    """The object is not there, or not any more."""


class ObjectFollower(Generic[V]):
    """A context manager: entered, it follows; left, its thread has ended.

    `mailbox` gets the object, each time that it has changed, `Gone`, or the KubeError with which the API refuses.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str,
        name: str,
        uid: str,
        decode: Decoder[V],
        mailbox: Mailbox[object],
    ) -> None:
        """`uid` "" takes whatever has the name."""
        self._uid = uid
        self._mailbox = mailbox
        self._follower = Follower(client, resource, namespace, decode, by_name(name))
        self._thread = threading.Thread(target=self._run, name=f"follow-{name}", daemon=True)

    def __enter__(self) -> ObjectFollower[V]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._follower.close()
        self._thread.join(10.0)

    def _run(self) -> None:
        seen = False
        try:
            with closing(iter(self._follower)) as changes:
                for change in changes:
                    if change.type is WatchEventType.BOOKMARK:
                        if not seen:  # the first list is through
                            self._mailbox.put(Gone())
                        continue
                    one = change.object
                    if one is None or (self._uid and one.metadata.uid != self._uid):
                        continue
                    seen = True
                    self._mailbox.put(one)
                    if change.type is WatchEventType.DELETED:
                        self._mailbox.put(Gone())
        except KubeError as error:
            self._mailbox.put(error)
