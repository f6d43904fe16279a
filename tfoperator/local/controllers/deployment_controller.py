"""The deployment controller of the embedded control plane.

It creates the pods of each deployment, and reports how many pods respond. It is a small version of
kube-controller-manager's controller, for the TensorBoards of TFJobs. The controller makes no ReplicaSets. The
controller ignores a deployment's strategy: it always first deletes the pods of the old template, and then creates the
pods of the new template (Recreate). In place of a kubelet, the controller itself sends the HTTP request of the
readiness probe. So, as in a cluster, "available" means that the page of the TensorBoard responds.
"""

from __future__ import annotations

import http.client
import logging
from collections.abc import Callable
from typing import Any

from tfoperator.api.replicas import names
from tfoperator.base.clock import Clock, SystemClock
from tfoperator.informers import (
    CONTROLLER_UID_INDEX,
    Callbacks,
    SharedInformerFactory,
    index_by_controller_uid,
)
from tfoperator.kube import Selection
from tfoperator.kube.protocol.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from tfoperator.kube.protocol.resources import DEPLOYMENTS, PODS, SERVICES
from tfoperator.kube.protocol.verbs import ApiClient, decoder
from tfoperator.kube.views.objects import HasMetadata, Pod, Service, timestamp
from tfoperator.local.controllers.deployment_pods import (
    HASH_LABEL,
    LocalDeployment,
    deployment_status,
    is_running,
    pod_bodies,
    probed_path,
)
from tfoperator.local.runtime.loopback_network import LOOPBACK, NoFreePort
from tfoperator.workqueue import DelayingQueue, Workers

logger = logging.getLogger(__name__)

PortMap = Callable[[str, str, int], int]
"""A function with the arguments (namespace, service, port). It returns the loopback port for a port of a service.
Raises NoFreePort.
"""

_RETRY_SECONDS = 1.0  # seconds until a failed sync is retried, and between two pods of one name
_PROBE_SECONDS = 0.5  # seconds between two attempts to reach a page
_PROBE_TIMEOUT = 1.0
_SERVICE_PORT = 80
_ENDED_PHASES = ("Succeeded", "Failed")

_decode_deployment = decoder(LocalDeployment)
_decode_metadata = decoder(HasMetadata)
_decode_pod = decoder(Pod)
_decode_service = decoder(Service)


class DeploymentController:
    """Creates and deletes the pods of deployments, until it is stopped.

    Thread-safe. Call `start()` once and `stop()` once.
    """

    def __init__(self, client: ApiClient, *, port: PortMap, publish: bool = False, clock: Clock | None = None) -> None:
        """`port` reserves a loopback port for a service.

        With `publish`, pods have networks of their own, and their ports must be published on loopback.
        """
        self._client = client
        self._port = port
        self._publishes = publish
        self._clock = clock or SystemClock()
        self._factory = SharedInformerFactory(client, clock=self._clock)
        self._deployments = self._factory.informer(DEPLOYMENTS, _decode_deployment)
        self._pods = self._factory.informer(
            PODS,
            _decode_pod,
            Selection(label_selector=HASH_LABEL),
            indexers={CONTROLLER_UID_INDEX: index_by_controller_uid},
        )
        self._services = self._factory.informer(
            SERVICES, _decode_service, Selection(label_selector=names.LABEL_TENSORBOARD)
        )
        self._queue: DelayingQueue[str] = DelayingQueue(name="deployments", clock=self._clock)
        self._workers = Workers(self._queue, self._try, 1, thread_name="deployments")
        self._serving: set[tuple[str, int]] = set()  # (UID, restarts) of pods that responded; only for the worker
        # A service has the same name as its TensorBoard's deployment.
        by_name = Callbacks[HasMetadata](changed=self._enqueue_name_of, gone=self._enqueue_name_of)
        self._deployments.add_handler(by_name)
        self._services.add_handler(by_name)
        self._pods.add_handler(Callbacks(changed=self._enqueue_owner, gone=self._enqueue_owner))

    def start(self) -> None:
        """Start to watch objects and sync deployments."""
        self._factory.start()
        self._workers.start()

    def stop(self) -> None:
        """Stop the threads. Deployments and their pods stay."""
        self._factory.signal_stop()  # a worker must not wait for the caches any longer
        self._workers.stop(10.0)
        self._factory.stop()

    def _enqueue_name_of(self, obj: HasMetadata) -> None:
        self._queue.add(obj.metadata.key)

    def _enqueue_owner(self, pod: HasMetadata) -> None:
        owner = pod.metadata.controller
        if owner is not None and owner.kind == DEPLOYMENTS.kind:
            self._queue.add(f"{pod.metadata.namespace}/{owner.name}")

    # Runs in the worker's thread.

    def _try(self, key: str) -> None:
        if not self._factory.wait_for_sync():
            return  # the controller is stopping
        try:
            self._sync(key)
        except (KubeError, NoFreePort) as error:
            logger.warning("deployment %s: %s; trying again", key, error)
            self._queue.add_after(key, _RETRY_SECONDS)
        except Exception:
            # The deployment's next event retries; the other deployments must not wait for it.
            logger.exception("deployment %s: its sync failed unexpectedly", key)

    def _sync(self, key: str) -> None:
        deployment = self._deployments.lister.find(key)
        if deployment is None or deployment.metadata.deletion_timestamp is not None:
            return
        port = None
        if names.LABEL_TENSORBOARD in deployment.metadata.labels:
            port = self._publish(key)
            if port is None:
                return  # the creation of the service causes another sync
        pods = self._pods.lister.by_index(CONTROLLER_UID_INDEX, deployment.metadata.uid)
        wanted = {body["metadata"]["name"]: body for body in pod_bodies(deployment, port, publish=self._publishes)}
        current = [pod for pod in pods if pod.metadata.name in wanted and pod.status.phase not in _ENDED_PHASES]
        for pod in pods:
            if pod not in current and pod.metadata.deletion_timestamp is None:
                self._delete(pod)
        if len(current) == len(pods):
            there = {pod.metadata.name for pod in pods}
            for missing in [body for name, body in wanted.items() if name not in there]:
                self._create(key, missing)
        self._report(deployment, pods, [pod for pod in current if pod.metadata.deletion_timestamp is None], port)

    def _publish(self, key: str) -> int | None:
        """Write the URL of a TensorBoard into an annotation of its service, and return the URL's loopback port.

        Return None if there is no service, or if the service is being deleted.
        """
        service = self._services.lister.find(key)
        if service is None or service.metadata.deletion_timestamp is not None:
            return None
        namespace, name = service.metadata.namespace, service.metadata.name
        port = self._port(namespace, name, _SERVICE_PORT)
        url = f"http://{LOOPBACK}:{port}"
        if service.metadata.annotations.get(names.ANNOTATION_TENSORBOARD_URL) != url:
            change = {
                "metadata": {
                    "uid": service.metadata.uid,
                    "resourceVersion": service.metadata.resource_version,
                    "annotations": {names.ANNOTATION_TENSORBOARD_URL: url},
                }
            }
            self._client.patch(SERVICES, namespace, name, change, _decode_metadata)
        return port

    def _create(self, key: str, body: dict[str, Any]) -> None:
        try:
            self._client.create(PODS, body["metadata"]["namespace"], body, _decode_metadata)
        except AlreadyExistsError:
            # The cache is outdated, or the previous pod of that name still exists.
            self._queue.add_after(key, _RETRY_SECONDS)

    def _delete(self, pod: Pod) -> None:
        meta = pod.metadata
        try:
            self._client.delete(PODS, meta.namespace, meta.name, uid=meta.uid)
        except (NotFoundError, ConflictError):
            pass  # the cache is outdated

    def _report(self, deployment: LocalDeployment, pods: list[Pod], current: list[Pod], port: int | None) -> None:
        meta = deployment.metadata
        available = sum(self._serves(deployment, pod, port) for pod in current)
        if available < sum(map(is_running, current)):
            self._queue.add_after(meta.key, _PROBE_SECONDS)
        since = timestamp(self._clock.now())
        status = deployment_status(deployment, pods, len(current), available, since)
        if status != deployment.status:
            try:
                self._client.patch(
                    DEPLOYMENTS, meta.namespace, meta.name, {"status": status}, _decode_metadata, subresource="status"
                )
            except NotFoundError:
                pass  # the deployment was just deleted

    def _serves(self, deployment: LocalDeployment, pod: Pod, port: int | None) -> bool:
        if not is_running(pod):
            return False
        path = probed_path(deployment)
        if port is None or not path:
            return True
        life = (pod.metadata.uid, sum(status.restart_count for status in pod.status.container_statuses))
        if life not in self._serving and _answers(port, path):
            self._serving.add(life)
        return life in self._serving


def _answers(port: int, path: str) -> bool:
    """Return whether a page responds with a status below 400. A redirection (3xx) suffices, as for a kubelet."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_PROBE_TIMEOUT)
    try:
        connection.request("GET", path)
        return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
