"""The runtime itself: networks, sandboxes and containers of one run, from its start to the last trace of it."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from docker.errors import NotFound

from tfoperator.clock import Clock, SystemClock
from tfoperator.local.docker_runtime.engine import BROKEN, APIError, Engine, connect, explain
from tfoperator.local.docker_runtime.guardian import RunGuardian
from tfoperator.local.docker_runtime.images import Images
from tfoperator.local.docker_runtime.leftovers import RUN_LABEL, new_run, remove_leftovers, remove_run
from tfoperator.local.docker_runtime.process import DockerContainer
from tfoperator.local.docker_runtime.sandbox import ensure_sandbox_image, sandbox_settings
from tfoperator.local.docker_runtime.settings import container_settings, host_settings
from tfoperator.local.network import LoopbackNetwork
from tfoperator.local.podview import Container, LocalPod
from tfoperator.local.runtime import ContainerRun, LaunchError, NotYet, OnExit, RuntimeUnavailable

__all__ = ["DockerRuntime"]

logger = logging.getLogger(__name__)

_RETRY = 2.0  # seconds until a sandbox that could not be made is tried again
_STOP_SECONDS = 20.0
_NO_INIT = "docker-init"
"""What the engine names in its refusal if it lacks an init process."""
_NOT_FOUND = re.compile(r"not found|no such file", re.IGNORECASE)


@dataclass
class _Sandbox:
    """A pod's sandbox. `lock` is held while it is made; a pod has one worker, so nobody waits there for long."""

    lock: threading.Lock = field(default_factory=threading.Lock)  # guards id and ip
    id: str = ""
    ip: str = ""


class DockerRuntime:
    """A `Runtime`. Thread-safe; `start()` and `stop()` once each."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.network = LoopbackNetwork()
        self._labels = new_run()
        self._engine: Engine | None = None
        self._images: Images | None = None
        self._guardian = RunGuardian(self._labels[RUN_LABEL])
        self._has_init = True  # until the engine says otherwise; nothing is lost if two threads ask
        self._lock = threading.Lock()  # guards the three below
        self._running: set[DockerContainer] = set()
        self._sandboxes: dict[str, _Sandbox] = {}  # by pod uid
        self._attempts = 0
        self._network_lock = threading.Lock()  # guards _networks; one is made at a time, and none after `stop`
        self._networks: dict[str, str] = {}  # namespace: name

    @property
    def run_id(self) -> str:
        """What everything of this run is labelled with, and named after."""
        return self._labels[RUN_LABEL]

    def start(self) -> None:
        """Connect, and remove what dead runs have left behind. Raises RuntimeUnavailable."""
        engine = connect()
        try:
            for name in remove_leftovers(engine.api):
                logger.info("removed container %s, left behind by a run that was killed", name)
            ensure_sandbox_image(engine)
        except BROKEN as error:
            engine.api.close()
            raise RuntimeUnavailable(f"the Docker engine refuses what is needed: {explain(error)}") from None
        except RuntimeUnavailable:
            engine.api.close()
            raise
        self._guardian.start()
        self._engine = engine
        self._images = Images(engine.api, self._clock)

    def stop(self) -> None:
        """Kill what still runs, wait for its end, and remove every container and network of this run. Idempotent."""
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
        self._guardian.stop()
        engine.api.close()

    def prepare(self, pod: LocalPod, container: Container, services: Callable[[], Collection[str]]) -> str:
        """Have the pod's sandbox and the container's image; returns the pod's address. Raises NotYet, LaunchError."""
        engine = self._connected()
        with self._lock:
            sandbox = self._sandboxes.setdefault(pod.metadata.uid, _Sandbox())
        with sandbox.lock:
            if sandbox.id and not _runs(engine.api, sandbox.id):  # an engine that was restarted has ended it
                _remove(engine.api, sandbox.id)
                sandbox.id = ""
            if not sandbox.id:
                self._make_sandbox(engine, sandbox, pod, services())
        assert self._images is not None
        self._images.have(container)
        return sandbox.ip

    def launch(self, run: ContainerRun, on_exit: OnExit, warn: Callable[[str, str], None]) -> DockerContainer:
        """Create and start the container; see `Runtime.launch`."""
        del warn
        engine = self._connected()
        api = engine.api
        with self._lock:
            sandbox = self._sandboxes[run.pod.metadata.uid]
            self._attempts += 1
            name = self._name(run.pod, f"{run.container.name}-{self._attempts}")
        try:
            created = self._start(engine, run, name, sandbox)
        except BROKEN as error:
            raise _launch_error(run, error) from None
        container = DockerContainer(api, created, label=name, log=run.log.path, on_exit=on_exit, on_ended=self._ended)
        with self._lock:
            self._running.add(container)
        container.start_waiting()
        return container

    def release_service(self, namespace: str, name: str) -> None:
        """Give back the service's port on this machine; its names go with the pods that had them."""
        self.network.release(namespace, name)

    def release_pod(self, pod: LocalPod) -> None:
        """Remove the pod's sandbox, and with it its address and names."""
        with self._lock:
            sandbox = self._sandboxes.pop(pod.metadata.uid, None)
        if sandbox is not None and self._engine is not None:
            with sandbox.lock:
                if sandbox.id:
                    _remove(self._engine.api, sandbox.id)

    def _connected(self) -> Engine:
        engine = self._engine
        if engine is None:
            raise LaunchError("the run is over")
        return engine

    def _ended(self, container: DockerContainer) -> None:
        with self._lock:
            self._running.discard(container)

    def _start(self, engine: Engine, run: ContainerRun, name: str, sandbox: _Sandbox) -> str:
        api, init = engine.api, self._has_init
        settings = container_settings(run, self._labels)
        settings["host_config"] = api.create_host_config(**host_settings(run, sandbox.id, engine.cpus, init=init))
        try:
            return self._run(api, name, settings)
        except APIError as error:
            if not (init and _NO_INIT in explain(error)):
                raise
            logger.info("the Docker engine has no init process: %s", explain(error))
        self._has_init = False
        return self._start(engine, run, name, sandbox)

    def _make_sandbox(self, engine: Engine, sandbox: _Sandbox, pod: LocalPod, services: Collection[str]) -> None:
        api = engine.api
        try:
            network = "" if pod.spec.host_network else self._network(api, pod.metadata.namespace)
            settings = sandbox_settings(api, pod, network, services, self._labels)
            created = self._run(api, self._name(pod, "sandbox"), settings)
            attached = api.inspect_container(created)["NetworkSettings"]["Networks"]
        except BROKEN as error:
            message = f"Failed to create pod sandbox: {explain(error)}"
            raise NotYet("ContainerCreating", message, _RETRY, warn=True) from None
        sandbox.ip = str(attached.get(network, {}).get("IPAddress") or "127.0.0.1")
        sandbox.id = created

    def _run(self, api: Any, name: str, settings: dict[str, Any]) -> str:
        """Create a container and start it; returns its id. If that fails, nothing is left of it."""
        try:
            created = str(api.create_container(name=name, **settings)["Id"])
            api.start(created)
            self._connected()  # `stop` may have looked for containers before this one was there
        except (*BROKEN, LaunchError):
            _remove(api, name)
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
        """What `docker ps` shows; the piece of the UID tells a pod from its successor."""
        return f"tfoperator-{self.run_id}-{pod.metadata.namespace}-{pod.metadata.name}-{pod.metadata.uid[:4]}-{part}"


def _runs(api: Any, container: str) -> bool:
    """Whether a container runs, as far as can be known."""
    try:
        return bool(api.inspect_container(container)["State"]["Running"])
    except NotFound:
        return False
    except BROKEN:
        return True


def _remove(api: Any, container: str) -> None:
    try:
        api.remove_container(container, force=True, v=True)
    except BROKEN as error:
        logger.debug("container %s is not removed, or gone already: %s", container, explain(error))


def _launch_error(run: ContainerRun, error: Exception) -> LaunchError:
    """What can't be found is 127 as for a shell, what can't be run 126: both permanent under `ExitCode`."""
    text = explain(error)
    code = 127 if isinstance(error, APIError) and _NOT_FOUND.search(text) else 126
    return LaunchError(f"can't start container {run.container.name!r} of image {run.container.image!r}: {text}", code)
