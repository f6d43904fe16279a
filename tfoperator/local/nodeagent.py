"""The node agent: scheduler and kubelet of the embedded control plane.

It takes every pod that has no node, or this one, and gives it to a worker thread; when the pod's object is marked for
deletion or vanishes, it tells the worker. All that it knows of the cluster comes through the API server, as for a
real kubelet, so it works against any API server that has no other scheduler.
"""

from __future__ import annotations

import logging
import platform
import queue
import threading
from pathlib import Path

from tfoperator.clock import Clock, SystemClock
from tfoperator.events import EventRecorder
from tfoperator.informers import SharedInformerFactory
from tfoperator.kube.objects import Service
from tfoperator.kube.resources import PODS, SERVICES
from tfoperator.kube.verbs import ApiClient, decoder
from tfoperator.local.expansion import POD_IP
from tfoperator.local.logs import LogStore
from tfoperator.local.node_api import NodeApi
from tfoperator.local.pod_worker import PodWorker
from tfoperator.local.podview import LocalPod, decode_pod
from tfoperator.local.runtime import Runtime
from tfoperator.local.volumes import VOLUMES, VolumeManager

__all__ = ["NodeAgent", "default_node_name"]

logger = logging.getLogger(__name__)


def default_node_name() -> str:
    """The name of this machine as a valid node name."""
    name = "".join(c if c.isalnum() or c in "-." else "-" for c in platform.node().lower()).strip("-.")
    return name or "local"


class NodeAgent:
    """Runs the pods of an API server on this machine. Thread-safe; `start()` and `stop()` once each.

    `run_dir` gets `logs/` (see `LogStore`) and `volumes/`. With `keep_volumes` the volumes of a pod outlive it,
    with `mount_volumes` containers of any user may use them.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        run_dir: Path,
        runtime: Runtime,
        node_name: str = "",
        keep_volumes: bool = False,
        mount_volumes: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.node_name = node_name or default_node_name()
        self._clock = clock or SystemClock()
        self._runtime = runtime
        self._recorder = EventRecorder(client, component="tfoperator-node", host=self.node_name, clock=self._clock)
        self._api = NodeApi(client, self._recorder, node_name=self.node_name, clock=self._clock)
        self.logs = LogStore(run_dir / "logs", clock=self._clock)
        self._volumes = VolumeManager(run_dir / VOLUMES, keep=keep_volumes, mounted=mount_volumes)
        self._informers = SharedInformerFactory(client, clock=self._clock)
        self._informers.informer(PODS, decode_pod).add_handler(_PodHandler(self))
        self._informers.informer(SERVICES, decoder(Service)).add_handler(_ServiceHandler(runtime))
        self._lock = threading.Lock()  # guards _workers and _stopping
        self._workers: dict[str, PodWorker] = {}  # by pod uid
        self._stopping = False
        self._leftovers: queue.SimpleQueue[LocalPod | None] = queue.SimpleQueue()
        self._finaliser = threading.Thread(target=self._finalise_leftovers, name="node-finaliser", daemon=True)

    def start(self) -> None:
        """Begin to run pods."""
        self._runtime.start()
        self._recorder.start()
        self._finaliser.start()
        self._api.register(POD_IP)
        self._informers.start()

    def stop(self, *, grace: float | None = None, timeout: float = 60.0) -> None:
        """Take no more pods, stop all that run, and give everything back.

        Each pod gets its own grace period, or `grace` seconds; after `timeout` seconds what is left is killed.
        """
        with self._lock:
            self._stopping = True
            workers = tuple(self._workers.values())
        for worker in workers:
            worker.stop(grace)
        end = self._clock.monotonic() + timeout
        late = [worker for worker in workers if not worker.join(max(0.0, end - self._clock.monotonic()))]
        self._api.close()
        for worker in late:
            worker.abandon()
        self._runtime.stop()
        for worker in late:
            if not worker.join(10.0):
                logger.warning("the worker of pod %s does not end", worker.pod.metadata.key)
        self._leftovers.put(None)
        self._finaliser.join(10.0)
        self._informers.stop()
        self._recorder.stop(timeout=2.0)
        self.logs.close()
        self._volumes.close()

    def kill_all(self) -> None:
        """Shorten every grace period to nothing: for a user who has pressed Ctrl-C twice."""
        with self._lock:
            workers = tuple(self._workers.values())
        for worker in workers:
            worker.stop(0.0)

    def pod_changed(self, pod: LocalPod) -> None:
        """A pod has appeared or changed. Does not block."""
        if pod.spec.node_name not in ("", self.node_name):
            return
        uid = pod.metadata.uid
        with self._lock:
            worker = self._workers.get(uid)
            if worker is None and not self._stopping and _wants_running(pod):
                worker = self._workers[uid] = PodWorker(
                    pod,
                    api=self._api,
                    runtime=self._runtime,
                    volumes=self._volumes,
                    logs=self.logs,
                    clock=self._clock,
                )
                worker.start()
                return
        # Only the node may remove a pod that is marked for deletion: also one that never ran here, or is over.
        if pod.metadata.deletion_timestamp is not None:
            seconds = pod.metadata.deletion_grace_period_seconds
            if worker is None or not worker.stop(None if seconds is None else float(seconds)):
                self._leftovers.put(pod)

    def pod_gone(self, pod: LocalPod) -> None:
        """A pod's object has vanished. Does not block."""
        with self._lock:
            worker = self._workers.pop(pod.metadata.uid, None)
        if worker is not None:
            worker.abandon()

    def _finalise_leftovers(self) -> None:
        while (pod := self._leftovers.get()) is not None:
            self._api.finalise(pod)


def _wants_running(pod: LocalPod) -> bool:
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed")


class _PodHandler:
    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent

    def on_add(self, obj: LocalPod, *, initial: bool) -> None:
        del initial
        self._agent.pod_changed(obj)

    def on_update(self, old: LocalPod, new: LocalPod) -> None:
        del old
        self._agent.pod_changed(new)

    def on_delete(self, obj: LocalPod, *, final_state_unknown: bool) -> None:
        del final_state_unknown
        self._agent.pod_gone(obj)


class _ServiceHandler:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def on_add(self, obj: Service, *, initial: bool) -> None:
        """Nothing: a port is reserved when somebody mentions it."""

    def on_update(self, old: Service, new: Service) -> None:
        """Nothing: names don't change."""

    def on_delete(self, obj: Service, *, final_state_unknown: bool) -> None:
        del final_state_unknown
        self._runtime.release_service(obj.metadata.namespace, obj.metadata.name)
