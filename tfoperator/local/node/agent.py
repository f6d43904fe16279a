"""The node agent: the scheduler and the kubelet of the embedded control plane.

The agent takes every pod without a node, and every pod that is bound to the agent's node. It starts a worker thread for
each pod. When the pod's object gets a `deletionTimestamp` or is removed, the agent informs the worker. Like a real
kubelet, the agent gets all information about the cluster from the API server. So it works with any API server that has
no other scheduler.
"""

from __future__ import annotations

import logging
import platform
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from tfoperator.api.replicas.names import LABEL_REPLICA_TYPE
from tfoperator.base.clock import Clock, Repetition, SystemClock
from tfoperator.events import EventRecorder
from tfoperator.informers import Callbacks, SharedInformerFactory
from tfoperator.kube.protocol.resources import PODS, SERVICES
from tfoperator.kube.protocol.verbs import ApiClient, decoder
from tfoperator.kube.views.objects import Service
from tfoperator.kube.views.pod_spec import GPU, Container
from tfoperator.local.gpus.manager import GpuManager
from tfoperator.local.node.container_launcher import NodeParts
from tfoperator.local.node.log_store import LogStore
from tfoperator.local.node.node_api import NodeApi
from tfoperator.local.node.pod_worker import PodWorker
from tfoperator.local.node.volumes import VOLUMES, VolumeManager
from tfoperator.local.runtime.log_files import LogRequest
from tfoperator.local.runtime.loopback_network import LOOPBACK
from tfoperator.local.runtime.protocol import HostService, LaunchError, LocalPod, Runtime, SideCommand, decode_pod
from tfoperator.local.usage import Machine

logger = logging.getLogger(__name__)

_SAMPLE_SECONDS = 0.5
"""Seconds between two measurements of the logs' sizes, from which `LineTimes` gets the times of log lines."""

_MAX_STACK_THREADS = 8


def default_node_name() -> str:
    """Return the name of this machine as a valid node name."""
    name = "".join(c if c.isalnum() or c in "-." else "-" for c in platform.node().lower()).strip("-.")
    return name or "local"


class NodeAgent:
    """Runs the pods of an API server on this machine. Thread-safe. Call `start()` once and `stop()` once.

    `run_dir` is the directory for `logs/` (see `LogStore`) and `volumes/`. With `keep_volumes`, volumes are kept after
    their pod is deleted. With `mount_volumes`, containers have mounts, and may run as any user ID. So the volumes are
    writable for every user ID.
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
        gpus: GpuManager | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.node_name = node_name or default_node_name()
        self._clock = clock or SystemClock()
        self._runtime = runtime
        self._recorder = EventRecorder(client, component="tfoperator-node", host=self.node_name, clock=self._clock)
        self._api = NodeApi(client, self._recorder, node_name=self.node_name, clock=self._clock)
        self.logs = LogStore(run_dir / "logs", clock=self._clock)
        self._times = Repetition(self.logs.note_times, seconds=_SAMPLE_SECONDS, clock=self._clock, name="log-times")
        self._volumes = VolumeManager(run_dir / VOLUMES, keep=keep_volumes, mounted=mount_volumes)
        self._informers = SharedInformerFactory(client, clock=self._clock)
        self._informers.informer(PODS, decode_pod).add_handler(Callbacks(changed=self.pod_changed, gone=self.pod_gone))
        self._informers.informer(SERVICES, decoder(Service)).add_handler(Callbacks(gone=self._service_gone))
        self._gpus = gpus or GpuManager()
        self._parts = NodeParts(self._api, runtime, self._volumes, self.logs, self._gpus, self._clock, self.node_name)
        self._machine = Machine.this()
        self._notices = Notices(runtime, cpus=self._machine.cpus, gpu_problem="")
        self._lock = threading.Lock()  # guards _workers, _stopping and _notices
        self._workers: dict[str, PodWorker] = {}  # by pod uid
        self._stopping = False
        self._leftovers: queue.SimpleQueue[LocalPod | None] = queue.SimpleQueue()
        self._finaliser = threading.Thread(target=self._finalise_leftovers, name="node-finaliser", daemon=True)

    def start(self, host_service: HostService | None = None) -> None:
        """Start to run pods.

        `host_service` is a service of this process that pods can call, for example to report their progress. Raises
        RuntimeUnavailable if the runtime can't run on this machine, for example without a Docker engine.
        """
        self._runtime.start(host_service)
        self._recorder.start()
        self._finaliser.start()
        self._times.start()
        self._gpus.open()
        self._notices = Notices(self._runtime, cpus=self._machine.cpus, gpu_problem=self._gpus.problem)
        self._api.register(LOOPBACK, self._resources())
        self._informers.start()

    def stop(self, *, grace: float | None = None, timeout: float = 60.0) -> None:
        """Accept no more pods, stop the running pods, and release all resources.

        Each pod gets the grace period of its spec or, if `grace` is set, `grace` seconds. Pods that still run after
        `timeout` seconds are killed.
        """
        with self._lock:
            self._stopping = True
            workers = tuple(self._workers.values())
        for worker in workers:
            worker.messages.stop(grace)
        end = self._clock.monotonic() + timeout
        late = [worker for worker in workers if not worker.join(max(0.0, end - self._clock.monotonic()))]
        self._api.close()
        for worker in late:
            worker.messages.abandon()
        self._runtime.stop()
        for worker in late:
            if not worker.join(10.0):
                logger.warning("the thread of pod %s does not end", worker.pod.metadata.key)
        self._leftovers.put(None)
        if self._finaliser.ident is not None:  # else the runtime failed to start, and this thread never ran
            self._finaliser.join(10.0)
        self._informers.stop()
        self._recorder.stop(timeout=2.0)
        self._gpus.close()
        self._times.stop()
        self.logs.close()
        self._volumes.close()

    def kill_all(self) -> None:
        """End the grace period of every pod now, so that running containers get SIGKILL.

        The commands call this method when the user presses Ctrl-C a second time.
        """
        with self._lock:
            workers = tuple(self._workers.values())
        for worker in workers:
            worker.messages.stop(0.0)

    def beside(self, namespace: str, name: str, container: str, command: Sequence[str]) -> SideCommand:
        """Return how to run a command, for example of `kubectl exec`, as an additional process of a running container.

        Raises LaunchError if the container does not run on this node, if the command's program does not exist, or if
        the runtime can't run additional processes (the Docker runtime can't).
        """
        with self._lock:
            workers = tuple(self._workers.values())
        for worker in workers:
            if (worker.pod.metadata.namespace, worker.pod.metadata.name) == (namespace, name):
                return self._runtime.beside(worker.pod, container, command)
        raise LaunchError(f"pod {name} does not run on this node")

    def read_stacks(self, wanted: LogRequest) -> Iterator[bytes]:
        """Yield the stacks of a container's Python threads as pieces of bytes, like a log.

        Raises LookupError if the pod does not run on this node.
        """
        key = f"{wanted.namespace}/{wanted.pod}"
        with self._lock:
            workers = [worker for worker in self._workers.values() if worker.pod.metadata.key == key]
        if not workers:
            raise LookupError(f"pod {key} does not run here")
        yield b""  # the response starts at once
        stacks = workers[-1].take_stacks(wanted.container)
        yield "".join(stacks.values()).encode() if stacks else b"No stacks: it does not run.\n"

    def take_stacks(self, pods: Iterable[str], timeout: float) -> None:
        """Read the stacks of the Python threads in the pods with these UIDs, and store them in the folders of the logs.

        Return when this is complete, or after `timeout` seconds.
        """
        with self._lock:
            workers = [self._workers[uid] for uid in pods if uid in self._workers]
        pool = ThreadPoolExecutor(_MAX_STACK_THREADS, thread_name_prefix="stacks")
        taken, _ = wait([pool.submit(worker.take_stacks) for worker in workers], timeout)
        pool.shutdown(wait=False, cancel_futures=True)
        for error in filter(None, (future.exception() for future in taken)):
            logger.error("the stacks can't be read", exc_info=error)

    def pod_changed(self, pod: LocalPod) -> None:
        """Handle a pod that was added or modified. The method does not block."""
        if pod.spec.node_name not in ("", self.node_name):
            return
        uid = pod.metadata.uid
        with self._lock:
            worker = self._workers.get(uid)
            begins = worker is None and not self._stopping and _wants_running(pod)
            if begins:
                worker = self._workers[uid] = PodWorker(pod, self._parts)
                worker.start()
        if begins:
            self._give_notice(pod)
            return
        if worker is not None:
            worker.messages.change_spec(pod.metadata.generation, pod.spec.active_deadline_seconds)
        # A pod that is marked for deletion stays until its node removes it, even if it never ran here or has ended.
        if pod.metadata.deletion_timestamp is not None:
            seconds = pod.metadata.deletion_grace_period_seconds
            if worker is None or not worker.messages.stop(None if seconds is None else float(seconds)):
                self._leftovers.put(pod)

    def pod_gone(self, pod: LocalPod) -> None:
        """Handle the removal of a pod's object. The method does not block."""
        with self._lock:
            worker = self._workers.pop(pod.metadata.uid, None)
        if worker is not None:
            worker.messages.abandon()

    def _give_notice(self, pod: LocalPod) -> None:
        with self._lock:
            news = self._notices.about(pod, self._running_replicas)
        for reason, message in news:
            self._api.warn(pod, reason, message)

    def _running_replicas(self) -> int:
        return sum(is_replica(worker.pod) and not worker.messages.over for worker in self._workers.values())

    def _resources(self) -> dict[str, str]:
        """Return the resources of this machine that pods can use."""
        resources = {"cpu": str(self._machine.cpus), "memory": f"{self._machine.memory // 1024}Ki"}
        return resources | ({GPU: str(self._gpus.count)} if self._gpus.count else {})

    def _service_gone(self, service: Service) -> None:
        self._runtime.network.release(service.metadata.namespace, service.metadata.name)

    def _finalise_leftovers(self) -> None:
        while (pod := self._leftovers.get()) is not None:
            self._api.finalise(pod)


def _wants_running(pod: LocalPod) -> bool:
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in ("Succeeded", "Failed")


_CROWDED_REASON = "MoreReplicasThanCPUs"
_LIMITED_RESOURCES = ("cpu", "memory")


class Notices:
    """Decides which warning events to record for a pod, for example that its limits are not enforced here.

    Each kind of warning is returned only once, for the first pod that causes it. Not thread-safe. `cpus` is the number
    of CPUs of this machine. `gpu_problem` is the reason why there are no GPUs, or "" if there are GPUs.
    """

    def __init__(self, runtime: Runtime, *, cpus: int, gpu_problem: str) -> None:
        self._enforces_limits = runtime.enforces_limits
        self._gpu_problem = "" if runtime.may_have_gpus else gpu_problem
        self._cpus = cpus
        self._warned: set[str] = set()

    def about(self, pod: LocalPod, replicas: Callable[[], int]) -> list[tuple[str, str]]:
        """Return (reason, message) of each warning that no earlier pod has caused.

        `replicas` returns the number of running replicas, including the replica in this pod.
        """
        news = [notice for notice in self._all(pod, replicas) if notice[0] not in self._warned]
        self._warned.update(reason for reason, _ in news)
        return news

    def _all(self, pod: LocalPod, replicas: Callable[[], int]) -> Iterator[tuple[str, str]]:
        containers = pod.spec.all_containers
        limited = _limited(containers)
        if limited and not self._enforces_limits:
            yield (
                "LimitsNotEnforced",
                f"limits of {limited} are not enforced for processes: use --enforce-limits, if this machine allows "
                "control groups, or --runtime docker, which always enforces limits",
            )
        crowd = 0 if _CROWDED_REASON in self._warned or not is_replica(pod) else replicas()
        if crowd > self._cpus:
            cpus = "1 CPU" if self._cpus == 1 else f"{self._cpus} CPUs"
            yield _CROWDED_REASON, f"this machine has {cpus}, but the job has more replicas: they slow each other down"
        if self._gpu_problem and any(_names_gpus(container) for container in containers):
            yield "NoGPU", f"{self._gpu_problem}; containers that request {GPU} run without a GPU of their own"


def is_replica(pod: LocalPod) -> bool:
    """Return whether the pod is a replica of a TFJob."""
    return LABEL_REPLICA_TYPE in pod.metadata.labels


def _limited(containers: Sequence[Container]) -> str:
    """Return the names of the resources that any of these containers limits, for example `cpu and memory`."""
    limits = [container.resources.limits or {} for container in containers if container.resources is not None]
    return " and ".join(name for name in _LIMITED_RESOURCES if any(name in of_container for of_container in limits))


def _names_gpus(container: Container) -> bool:
    resources = container.resources
    return resources is not None and (GPU in (resources.limits or {}) or GPU in (resources.requests or {}))
