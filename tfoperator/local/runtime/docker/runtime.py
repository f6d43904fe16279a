"""The networks, sandboxes and containers of one run. The runtime creates them, and removes all of them at the end."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from docker.errors import APIError

from tfoperator.base.clock import Clock, SystemClock
from tfoperator.kube.views.pod_spec import Container
from tfoperator.local.runtime.docker.container import DockerContainer, image_of
from tfoperator.local.runtime.docker.engine import (
    ENGINE_ERRORS,
    Engine,
    connect,
    explain,
    launch_error,
    remove_container,
    runs,
)
from tfoperator.local.runtime.docker.guardian_main import ALL_IS_REMOVED
from tfoperator.local.runtime.docker.host_access import HostAccess, Unreachable, without_access
from tfoperator.local.runtime.docker.images import Images
from tfoperator.local.runtime.docker.leftovers import (
    RUN_LABEL,
    container_guardian,
    new_run,
    remove_leftovers,
    remove_run,
)
from tfoperator.local.runtime.docker.quiet_volumes import QuietVolumes
from tfoperator.local.runtime.docker.sandbox import Sandbox, ensure_sandbox_image, sandbox_settings
from tfoperator.local.runtime.docker.settings import check_privileges, container_settings, host_settings
from tfoperator.local.runtime.loopback_network import LoopbackNetwork
from tfoperator.local.runtime.measurements import ContainerName, Measurement, PeakMemory
from tfoperator.local.runtime.protocol import (
    ContainerStart,
    HostService,
    LaunchError,
    LocalPod,
    Mount,
    OnExit,
    RuntimeUnavailable,
    SideCommand,
    StartLater,
)

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 2.0  # seconds until making a sandbox is retried
_STOP_SECONDS = 20.0
_NO_INIT_TEXT = "docker-init"
"""A text in the engine's error if the engine has no init process."""
_NO_GPUS_TEXT = "could not select device driver"
"""A text in the engine's error if the engine can't give a GPU to a container."""


class DockerRuntime:
    """A `Runtime` that uses a Docker engine. Thread-safe. Call `start()` once and `stop()` once.

    Without `allow_privileged`, it starts no container that would have power over this machine, see `check_privileges`.
    """

    def __init__(self, *, allow_privileged: bool = False, clock: Clock | None = None) -> None:
        self._allow_privileged = allow_privileged
        self._access: HostAccess | None = None  # set by `start`
        self._clock = clock or SystemClock()
        self.network = LoopbackNetwork()
        self.peaks = PeakMemory()
        self.enforces_limits = True
        self.may_have_gpus = True
        self._without_gpus = False  # set when the engine has reported that it has no GPUs
        self._labels = new_run()
        self.run_id = self._labels[RUN_LABEL]
        """The ID in the labels and names of all objects of this run."""
        self._engine: Engine | None = None
        self._images: Images | None = None
        self._guardian = container_guardian(self.run_id)
        self._has_init = True  # whether the engine has an init process; False as soon as it reports that it has none
        self._lock = threading.Lock()  # guards the three fields below
        self._running: dict[DockerContainer, ContainerStart] = {}
        self._sandboxes: dict[str, Sandbox] = {}  # by pod uid
        self._attempts = 0
        self._network_lock = threading.Lock()  # guards _networks; one is made at a time, and none after `stop`
        self._networks: dict[str, str] = {}  # namespace: name
        self._volumes = QuietVolumes()

    def start(self, host_service: HostService | None = None) -> None:
        """Connect to the engine. Remove the containers and networks of runs that have ended.

        Raises RuntimeUnavailable if the engine can't be used.
        """
        self._access = None if host_service is None else HostAccess(host_service)
        engine = connect()
        try:
            for name in remove_leftovers(engine.api):
                logger.info("removed container %s, which a killed run had left", name)
            ensure_sandbox_image(engine)
        except ENGINE_ERRORS as error:
            engine.api.close()
            raise RuntimeUnavailable(f"the Docker engine refuses a request: {explain(error)}") from None
        except RuntimeUnavailable:
            engine.api.close()
            raise
        self._guardian.start()
        self._engine = engine
        self._images = Images(engine.api, self._clock)

    def stop(self) -> None:
        """Kill running containers, wait until they have ended, and remove this run's containers and networks.

        Idempotent.
        """
        engine, self._engine = self._engine, None
        if engine is None:
            return
        with self._lock:
            running = tuple(self._running)
        for container in running:
            container.kill()
        end = self._clock.monotonic() + _STOP_SECONDS
        for container in running:
            container.join(max(0.0, end - self._clock.monotonic()))
        with self._network_lock:
            remove_run(engine.api, self.run_id)
        if self._images is not None:
            self._images.close()
        self.network.close()
        self._guardian.stop(ALL_IS_REMOVED)
        engine.api.close()

    def prepare(self, pod: LocalPod, container: Container, services: Callable[[], Collection[str]]) -> str:
        """Make sure that the pod's sandbox and the container's image exist. Return the pod's address.

        `services` returns the names of the services that select the pod. Raises StartLater if the container can't be
        started yet, for example while its image is being pulled. Raises LaunchError if it must not or can't be started.
        """
        engine = self._connected()
        if not self._allow_privileged:
            check_privileges(pod, container)
        with self._lock:
            sandbox = self._sandboxes.setdefault(pod.metadata.uid, Sandbox())
        with sandbox.lock:
            if sandbox.id and not runs(engine.api, sandbox.id):  # a restart of the engine has ended the sandbox
                remove_container(engine.api, sandbox.id)
                sandbox.id = ""
            if not sandbox.id:
                self._make_sandbox(engine, sandbox, pod, services())
        assert self._images is not None
        self._images.ensure(container)
        return sandbox.ip

    def reserve(self, pod: LocalPod, mounts: Sequence[Mount]) -> None:
        """Do nothing, because each container has its own mounts."""
        del pod, mounts

    def launch(self, run: ContainerStart, on_exit: OnExit, warn: Callable[[str, str], None]) -> DockerContainer:
        """Create and start the container, as `Runtime.launch` describes."""
        engine = self._connected()
        api = engine.api
        with self._lock:
            sandbox = self._sandboxes[run.pod.metadata.uid]
            self._attempts += 1
            name = self._name(run.pod, f"{run.container.name}-{self._attempts}")
        if sandbox.unreachable:
            warn("NoProgressReports", f"the program can't report progress from a container: {sandbox.unreachable}")
            run = msgspec.structs.replace(run, environment=without_access(run.environment))
        try:
            with self._volumes.starting(api, name, run.mounts):
                created = self._start(engine, run, name, sandbox, warn)
        except ENGINE_ERRORS as error:
            raise launch_error(run, error) from None
        ended = functools.partial(self._ended, name)
        image_id = image_of(api, created)
        container = DockerContainer(
            api, created, image_id=image_id, label=name, log=run.log.path, on_exit=on_exit, on_ended=ended
        )
        with self._lock:
            self._running[container] = run
        container.start_waiting()
        return container

    def beside(self, pod: LocalPod, container: str, command: Sequence[str]) -> SideCommand:
        """Raise LaunchError: users can run a command in a container with the engine's own commands."""
        del command
        raise LaunchError(
            f"container {container!r} of pod {pod.metadata.name} is a container of this machine's engine: use "
            "`docker exec`, `docker attach` or `docker cp` with the name that `docker ps` shows"
        )

    def measure(self) -> list[Measurement]:
        """Return the usage of all running containers, as `Runtime.measure` describes."""
        if self._engine is None:
            return []
        with self._lock:
            running = dict(self._running)
        measurements = []
        for container, run in running.items():
            used = container.usage()
            if used is not None:
                meta = run.pod.metadata
                name = ContainerName(meta.namespace, meta.name, run.container.name)
                measurements.append(Measurement(name, container.id, meta.uid, *used))
        return measurements

    def release_pod(self, pod: LocalPod) -> None:
        """Remove the pod's sandbox. This also removes the pod's address and names."""
        with self._lock:
            sandbox = self._sandboxes.pop(pod.metadata.uid, None)
        if sandbox is not None and self._engine is not None:
            with sandbox.lock:
                if sandbox.id:
                    remove_container(self._engine.api, sandbox.id)

    def _connected(self) -> Engine:
        engine = self._engine
        if engine is None:
            raise LaunchError("the run is over")
        return engine

    def _ended(self, name: str, container: DockerContainer) -> None:
        self._volumes.ended(name)
        with self._lock:
            self._running.pop(container, None)

    def _start(
        self, engine: Engine, run: ContainerStart, name: str, sandbox: Sandbox, warn: Callable[[str, str], None]
    ) -> str:
        api, init, gpus = engine.api, self._has_init, not self._without_gpus
        settings = container_settings(run, self._labels)
        host = host_settings(run, sandbox.id, engine.cpus, init=init, gpus=gpus)
        settings["host_config"] = api.create_host_config(**host)
        try:
            return self._run(api, name, settings)
        except APIError as error:
            reason = explain(error)
            if init and _NO_INIT_TEXT in reason:
                logger.info("the Docker engine can't start an init process: %s", reason)
                self._has_init = False
            elif gpus and not run.gpus and _NO_GPUS_TEXT in reason:
                warn("NoGPU", f"the Docker engine has no GPUs ({reason}): containers that request GPUs run on the CPU")
                self._without_gpus = True
            else:
                raise
        return self._start(engine, run, name, sandbox, warn)

    def _make_sandbox(self, engine: Engine, sandbox: Sandbox, pod: LocalPod, services: Collection[str]) -> None:
        api = engine.api
        try:
            network = "" if pod.spec.host_network else self._network(api, pod.metadata.namespace)
            hosts = self._host_names(api, sandbox, pod)
            settings = sandbox_settings(api, pod, network, services, self._labels, hosts)
            created = self._run(api, self._name(pod, "sandbox"), settings)
            attached = api.inspect_container(created)["NetworkSettings"]["Networks"]
        except ENGINE_ERRORS as error:
            message = f"Failed to create pod sandbox: {explain(error)}"
            raise StartLater("ContainerCreating", message, _RETRY_SECONDS, event="Failed") from None
        sandbox.ip = str(attached.get(network, {}).get("IPAddress") or "127.0.0.1")
        sandbox.id = created

    def _host_names(self, api: Any, sandbox: Sandbox, pod: LocalPod) -> dict[str, str]:
        """Return the name and the address of this process's service.

        The result is empty for a pod that does not use the service, or can't reach it.
        """
        sandbox.unreachable = ""
        if self._access is None or not self._access.wanted_by(pod):
            return {}
        try:
            network = self._network(api, pod.metadata.namespace)
            return self._access.hosts(api, network, on_host=bool(pod.spec.host_network))
        except Unreachable as error:
            logger.info("pod %s can't report progress: %s", pod.metadata.name, error)
            sandbox.unreachable = str(error)
            return {}

    def _run(self, api: Any, name: str, settings: dict[str, Any]) -> str:
        """Create a container and start it; return its ID. If that fails, remove the container and raise the error."""
        try:
            created = str(api.create_container(name=name, **settings)["Id"])
            api.start(created)
            self._connected()  # `stop` may have listed the containers before this one existed
        except (*ENGINE_ERRORS, LaunchError):
            remove_container(api, name)
            raise
        return created

    def _network(self, api: Any, namespace: str) -> str:
        with self._network_lock:
            self._connected()
            name = self._networks.get(namespace)
            if name is None:
                name = f"tfoperator-{self.run_id}-{namespace}"
                api.create_network(name, driver="bridge", labels=self._labels)
                self._networks[namespace] = name
            return name

    def _name(self, pod: LocalPod, part: str) -> str:
        """Return the name that `docker ps` shows for a container of the pod.

        `part` is the name's end, for example `tensorflow-1`. The name also contains the start of the pod's UID, to
        distinguish the pod from a later pod with the same name.
        """
        return f"tfoperator-{self.run_id}-{pod.metadata.namespace}-{pod.metadata.name}-{pod.metadata.uid[:4]}-{part}"
