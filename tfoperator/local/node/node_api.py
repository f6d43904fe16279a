"""The node agent's requests to the API server: bind, report, finalise, look up, record events.

A pod's worker must continue after any response of the server, so writes never raise an error. If a write may succeed
later, the function retries the write for a few seconds. If a write is pointless, because the object does not exist any
more or was replaced, the function silently drops the write. Other errors are logged. If a container can't start without
the result of a request, the request raises StartLater or ContainerConfigError: the worker then starts the container
later.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from tfoperator.base.clock import Clock, StopSignal
from tfoperator.events import EventRecorder, ObjectReference
from tfoperator.kube.protocol.errors import (
    ApiError,
    ClientClosed,
    ConflictError,
    KubeError,
    NotFoundError,
    ServerError,
    TransportError,
)
from tfoperator.kube.protocol.resources import CONFIG_MAPS, PODS, SECRETS, SERVICES, Resource
from tfoperator.kube.protocol.verbs import ApiClient, PatchType, decoder
from tfoperator.kube.views.objects import HasMetadata, timestamp
from tfoperator.local.node.expansion import ContainerConfigError, ObjectData, Sources, Tokens
from tfoperator.local.node.system_info import node_conditions, node_info, node_labels
from tfoperator.local.runtime.protocol import LocalPod, StartLater

logger = logging.getLogger(__name__)

NODES = Resource("", "v1", "Node", "nodes", namespaced=False)

_ATTEMPTS = 8
_FIRST_PAUSE = 0.25  # seconds, doubled each time: some 30 s in total, longer than a restart of the API server

_decode_any = msgspec.json.Decoder().decode
_decode_metadata = decoder(HasMetadata)


class _Selection(msgspec.Struct, frozen=True):
    selector: dict[str, str] = {}


class _Selecting(HasMetadata, frozen=True):
    """A service, with only the fields that select its pods."""

    spec: _Selection = msgspec.field(default_factory=_Selection)


class _TokenStatus(msgspec.Struct, frozen=True):
    token: str = ""

    def __repr__(self) -> str:
        return "_TokenStatus(...)"


class _Token(msgspec.Struct, frozen=True):
    """A TokenRequest with its response."""

    status: _TokenStatus = _TokenStatus()


_decode_token = decoder(_Token)
_decode_selecting = decoder(_Selecting)


class NodeApi:
    """Sends the requests of a pod's worker to the API server. Thread-safe. `close()` ends all waits for a retry."""

    def __init__(self, client: ApiClient, recorder: EventRecorder, *, node_name: str, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._node_name = node_name
        self._clock = clock
        self._closed = StopSignal()
        self._retrying = Retrying(
            retry=retry_if_exception(_may_succeed_later),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(_FIRST_PAUSE),
            sleep=self._pause,
            reraise=True,
        )

    def close(self) -> None:
        """Stop all retries of requests."""
        self._closed.set()

    def register(self, address: str, resources: Mapping[str, str]) -> None:
        """Create this node's object. Only clients that show nodes, such as `kubectl get nodes`, need this object.

        `resources` becomes the node's capacity: quantities by name, such as `{"cpu": "8"}`. Pods may use all of these
        resources.
        """
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self._node_name, "labels": node_labels(self._node_name)},
        }
        status = {
            "capacity": dict(resources),
            "allocatable": dict(resources),
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": self._node_name}],
            "conditions": node_conditions(timestamp(self._clock.now())),
            "nodeInfo": node_info(),
        }
        try:
            self._client.create(NODES, "", node, _decode_metadata)
            self._client.patch(NODES, "", self._node_name, {"status": status}, _decode_metadata, subresource="status")
        except KubeError as error:
            logger.debug("node %s can't be registered: %s", self._node_name, error)

    def bind(self, pod: LocalPod) -> bool:
        """Bind a pod that has no node to this node, as a scheduler does. Return False if the API server refuses."""
        if pod.spec.node_name:
            return True
        meta = pod.metadata
        # The binding subresource is the only way to set spec.nodeName on an existing pod.
        binding = Resource("", "v1", "Binding", f"pods/{meta.name}/binding")
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self._node_name},
        }
        return self._persist(pod, "bind", lambda: self._client.create(binding, meta.namespace, body, _decode_any))

    def report(self, pod: LocalPod, status: dict[str, object]) -> None:
        """Write the pod's status, unless another pod (with another UID) has its name now.

        Conditions whose types are not in `status` stay unchanged, as with a kubelet.
        """
        meta, conditions = pod.metadata, status.get("conditions")
        if isinstance(conditions, list):
            # The server merges conditions of one type: null removes the value of an earlier report.
            status = {
                **status,
                "conditions": [{"reason": None, "message": None, **condition} for condition in conditions],
            }
        body = {"metadata": {"uid": meta.uid}, "status": status}
        self._persist(
            pod,
            "report the status of",
            lambda: self._client.patch(
                PODS,
                meta.namespace,
                meta.name,
                body,
                _decode_metadata,
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            ),
        )

    def finalise(self, pod: LocalPod) -> None:
        """Delete the pod with grace period 0, which confirms that none of its containers run."""
        meta = pod.metadata
        self._persist(
            pod,
            "finalise",
            lambda: self._client.delete(PODS, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0),
        )

    def sources(self, namespace: str) -> Sources:
        """Return a function that reads ConfigMaps and Secrets of a namespace. This function reads each object of the
        namespace only once.
        """
        cached: dict[tuple[str, str], ObjectData | None] = {}

        def look_up(kind: str, name: str) -> ObjectData | None:
            if (kind, name) not in cached:
                cached[kind, name] = self._read(kind, namespace, name)
            return cached[kind, name]

        return look_up

    def tokens(self, pod: LocalPod) -> Tokens:
        """Return a function that requests tokens of the pod's service account.

        The tokens are bound to the pod, as the tokens that a kubelet requests.
        """
        meta = pod.metadata
        account = pod.spec.service_account_name or "default"
        requests = Resource("", "v1", "TokenRequest", f"serviceaccounts/{account}/token")

        def get(audience: str, seconds: int) -> str:
            bound = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
            body = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [audience] if audience else [],
                    "expirationSeconds": seconds,
                    "boundObjectRef": bound,
                },
            }
            try:
                return self._client.create(requests, meta.namespace, body, _decode_token).status.token
            except KubeError as error:
                raise ContainerConfigError(f"no token for service account {account!r}: {error}") from None

        return get

    def services(self) -> frozenset[tuple[str, str]]:
        """Return all services as (namespace, name). The result is empty if the server does not respond."""
        try:
            page = self._client.list(SERVICES, "", _decode_metadata)
        except KubeError as error:
            logger.warning("can't list services, so short service names are not resolved: %s", error)
            return frozenset()
        return frozenset((item.metadata.namespace, item.metadata.name) for item in page.items)

    def services_of(self, pod: LocalPod) -> tuple[str, ...]:
        """Return the names of the services that select the pod. Raises StartLater if the services can't be listed."""
        try:
            page = self._client.list(SERVICES, pod.metadata.namespace, _decode_selecting)
        except KubeError as error:
            raise StartLater("ContainerCreating", f"can't list services: {error}", 1.0) from None
        labels = pod.metadata.labels.items()
        return tuple(
            service.metadata.name
            for service in page.items
            if service.spec.selector and service.spec.selector.items() <= labels
        )

    def warn(self, pod: LocalPod, reason: str, message: str) -> None:
        """Record a warning event about a pod."""
        self._recorder.event(ObjectReference.to("v1", "Pod", pod.metadata), "Warning", reason, message)

    def _read(self, kind: str, namespace: str, name: str) -> ObjectData | None:
        resource = CONFIG_MAPS if kind == "ConfigMap" else SECRETS
        try:
            obj: dict[str, Any] = self._client.get(resource, namespace, name, _decode_any)
        except NotFoundError:
            return None
        except KubeError as error:
            logger.warning("can't read %s %s/%s: %s", kind, namespace, name, error)
            return None
        encoded = obj.get("data") or {}
        if kind == "Secret":
            return ObjectData({key: base64.b64decode(value) for key, value in encoded.items()})
        return ObjectData(
            {key: value.encode() for key, value in encoded.items()},
            {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()},
        )

    def _persist(self, pod: LocalPod, what: str, write: Callable[[], object]) -> bool:
        try:
            self._retrying(write)
        except (NotFoundError, ConflictError) as error:
            logger.debug("pod %s: has been deleted, so the node agent can't %s it: %s", pod.metadata.key, what, error)
            return False
        except (TransportError, ApiError) as error:
            logger.warning("can't %s pod %s: %s", what, pod.metadata.key, error)
            return False
        return True

    def _pause(self, seconds: float) -> None:
        if self._closed.wait(self._clock, seconds):
            raise ClientClosed("the node agent is stopping")


def _may_succeed_later(error: BaseException) -> bool:
    return isinstance(error, (TransportError, ServerError)) or (isinstance(error, ApiError) and error.code == 429)
