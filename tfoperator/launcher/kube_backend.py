"""What is the same for everything that a launch makes in a cluster: to create it once, to stop it, to remove it."""

from __future__ import annotations

import copy
import logging
from contextlib import closing
from typing import Any

from tfoperator.kube.client import Client
from tfoperator.kube.errors import AlreadyExistsError, KubeError
from tfoperator.kube.following import Follower
from tfoperator.kube.objects import PartialObject
from tfoperator.kube.resources import Resource
from tfoperator.kube.verbs import WatchEventType, decoder
from tfoperator.launcher.base import BaseComponentLauncher
from tfoperator.launcher.container_launcher import LAUNCH_LABEL
from tfoperator.launcher.errors import LaunchCancelled, PermanentFailure
from tfoperator.launcher.kube_calls import KubeCalls
from tfoperator.launcher.mailbox import Mailbox

__all__ = ["DEFAULT_GRACE", "KubeBackend"]

logger = logging.getLogger(__name__)

Json = dict[str, Any]

DEFAULT_GRACE = 30  # seconds; Kubernetes' own terminationGracePeriodSeconds
_BEYOND_GRACE = 30.0  # seconds that a node may take beyond that

_decode = decoder(PartialObject)


class KubeBackend:
    """Base of the backends over an API server. `manifest` is the object without its name; `grace` is in seconds."""

    def __init__(
        self,
        launcher: BaseComponentLauncher,
        client: Client,
        namespace: str,
        resource: Resource,
        manifest: Json,
        grace: float,
    ) -> None:
        self.launcher = launcher
        self.context = launcher.context
        self.calls = KubeCalls(client, namespace, launcher.context, launcher.cancelled)
        self.mailbox: Mailbox[object] = Mailbox(launcher.context.clock)  # a new one for each wait; any thread puts
        self._resource = resource
        self._manifest = manifest
        self._grace = grace

    def create(self, name: str) -> str:
        """Create the object, or find that this launch has done so."""
        calls, run, resource = self.calls, self.launcher.record.run, self._resource
        body = copy.deepcopy(self._manifest)
        body["metadata"] |= {"name": name, "labels": {**body["metadata"].get("labels", {}), LAUNCH_LABEL: run}}
        what = f"{resource.kind} {calls.namespace}/{name}"
        try:
            made = calls.patiently(
                f"create {what}", lambda: calls.client.create(resource, calls.namespace, body, _decode)
            )
        except AlreadyExistsError as error:
            # An answer that was lost, or a launcher that was killed before it could write down the UID.
            made = calls.patiently(f"get {what}", lambda: calls.client.get(resource, calls.namespace, name, _decode))
            if made.metadata.labels.get(LAUNCH_LABEL) != run:
                raise PermanentFailure(f"{what} exists, and is not this launch's") from error
        self.context.tell(f"{what} created")
        return made.metadata.uid

    def stop(self, name: str, uid: str) -> None:
        """Delete the object with its grace period, and wait until it is gone; the API's failures are logged."""
        calls = self.calls
        what = f"{self._resource.kind} {calls.namespace}/{name}"
        self.context.tell(f"stopping {what}")
        calls.delete(self._resource, name, uid)
        follower = Follower(
            calls.client,
            self._resource,
            calls.namespace,
            _decode,
            field_selector=f"metadata.name={name}",
            deadline=self.context.clock.monotonic() + self._grace + _BEYOND_GRACE,
        )
        there = False
        try:
            with closing(iter(follower)) as changes:
                for change in changes:
                    if change.type is WatchEventType.DELETED or (change.type is WatchEventType.BOOKMARK and not there):
                        return
                    there = there or (change.object is not None and uid in ("", change.object.metadata.uid))
        except KubeError as error:
            logger.warning("whether %s is gone can't be seen: %s", what, error)
            return
        logger.warning("%s is still there; it was told to go", what)

    def remove(self, name: str, uid: str) -> None:
        """Delete the object."""
        self.calls.delete(self._resource, name, uid)

    def wake(self) -> None:
        """See `container_launcher.Backend`."""
        self.mailbox.put(None)

    def cancellation(self, name: str) -> LaunchCancelled:
        """What a wait raises when the launch is cancelled."""
        component = self.launcher.component.name
        return LaunchCancelled(f"component {component}: cancelled; {self._resource.kind} {name} was stopped")
