"""The embedded control plane: API server, operator, node agent and deployment controller, in one process.

The components reach the API server by HTTP, as in a cluster. This module only starts and stops them: it creates no jobs
and prints nothing. `tfoperator run` and the background process of `tfoperator local up` use it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from tfoperator.api.replicas.names import DEFAULT_CONTAINER_NAME
from tfoperator.api.replicas.progress_names import PROGRESS_SERVICE
from tfoperator.base.file_limit import raise_file_limit
from tfoperator.kube.client import Client
from tfoperator.kube.config.cluster import ClusterConfig
from tfoperator.kube.config.credentials import StaticCredentials, bearer
from tfoperator.kube.config.tls import TlsOptions
from tfoperator.kube.views.objects import Pod
from tfoperator.local.apiserver.endpoint import ReservedEndpoint
from tfoperator.local.apiserver.http.pod_streams import NodeStreams
from tfoperator.local.apiserver.server import EmbeddedApiServer
from tfoperator.local.controllers.deployment_controller import DeploymentController
from tfoperator.local.gpus.manager import GpuManager
from tfoperator.local.node.agent import NodeAgent
from tfoperator.local.runtime.log_files import LogFile, LogRequest
from tfoperator.local.runtime.loopback_network import LOOPBACK
from tfoperator.local.runtime.process.cleanup.records import RECORDS
from tfoperator.local.runtime.process.groups.stacks import is_stopped
from tfoperator.local.runtime.protocol import HostService
from tfoperator.local.runtime.selection import PROCESSES, RuntimeOptions, make_runtime
from tfoperator.local.usage import UsageMeter
from tfoperator.operator import Operator, Options, Reach, Seen
from tfoperator.operator.witnesses.stall_stacks import StackTaker
from tfoperator.servers.http.limits import Address

if TYPE_CHECKING:
    from tfoperator.kube.http.sending.exec import Executed
    from tfoperator.servers.progress.reports import ProgressReport

logger = logging.getLogger(__name__)

_ARCHIVE_BYTES = 1 << 30

_SYSTEM_NAMESPACE = "kube-system"
_PROGRESS_WRITES = 50.0
"""The maximum number of statuses per second that the operator writes because of progress reports. By default, each
replica of an operator in a cluster writes at most 25 per second. Here there is only one replica.
"""

_MAX_STALLED_PODS = 10_000
"""The maximum number of stalled pods whose stacks are taken: more than the pods of any job on this machine. A lower
limit is not necessary here, because the stacks of each pod are written to a separate file.
"""

_DEFAULT_PS_IMAGE = "tensorflow/tensorflow"


class Page(Protocol):
    """A page in the browser that shows the jobs.

    The package `ui` implements it. Call `start()` once and `stop()` once.
    """

    def start(self) -> None:
        """Start to serve the page."""

    def hold(self) -> None:
        """Continue to show the present state, and show no later change: the run has ended, and its jobs are being
        removed.
        """

    def stop(self) -> None:
        """Stop serving, and close the page's client of the API server."""


LogAttempts = Callable[[str, str, str], Sequence[LogFile]]
"""A function with the arguments (namespace, pod, container). It returns the logs of the container's attempts: see
`LogStore.attempts`.
"""

PageMaker = Callable[[Client, Callable[[str], object], Path | None, LogAttempts], Page]
"""Makes a page. The arguments are a client, a function that is called with each link that opens the page, the log
archive (if any), and the logs of the containers.
"""


class ServedPage(msgspec.Struct, frozen=True):
    """The function that makes the page, and the receiver of the links to the page.

    `on_link` is called with each link that opens the page. Any thread may call it.
    """

    make: PageMaker
    on_link: Callable[[str], object]


class ControlPlane:
    """Starts and stops all components in order. One thread calls `start()` once and `stop()` once.

    - `run_dir` is the directory for logs, volumes and process records (files that name the processes of containers, so
      that a later run can kill them after a crash).
    - If `port` is 0, a free port is selected.
    - `pods` selects the runtime that runs pods.
    - The operator keeps the logs of containers in `archive_dir`.
    - With `progress`, the operator accepts progress reports from the jobs with `spec.progress`.
    - The control plane also serves `page`.
    - `on_failure(reason)` is called from another thread if the operator has failed.
    - `on_quiet(client)` is called by `stop()` when only the API server still runs. At that time, the other components
      have completed all their writes.

    The constructor raises OSError if the port is in use, and RuntimeUnavailable if the library of the runtime is not
    installed.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        port: int = 0,
        pods: RuntimeOptions = PROCESSES,
        archive_dir: Path | None = None,
        progress: bool = False,
        on_failure: Callable[[str], None] | None = None,
        page: ServedPage | None = None,
        on_quiet: Callable[[Client], object] = lambda _: None,
    ) -> None:
        self.run_dir = run_dir
        self.runtime = make_runtime(pods, records=run_dir / RECORDS)
        self._gpus = GpuManager()
        self.meter = UsageMeter(self.runtime, gpus=self._gpus.use)
        """Measures the containers' usage."""
        self.endpoint = ReservedEndpoint(port)
        """The address of the API server."""
        self.client = Client(client_config(self.endpoint))
        self.agent = NodeAgent(
            self.client,
            run_dir=run_dir,
            runtime=self.runtime,
            keep_volumes=pods.keep_volumes,
            mount_volumes=pods.in_containers,
            gpus=self._gpus,
        )
        node = NodeStreams(self.agent.logs.read, self.agent.read_stacks, self.agent.beside)
        self._server = EmbeddedApiServer(self.endpoint, usage=self.meter.read, node=node)
        # This taker neither keeps stacks nor records events: the agent keeps the stacks beside the logs, and the job's
        # report has their paths.
        self._stacks = StackTaker(
            _AgentStacks(self.agent), lambda *_: None, lambda *_: None, max_pods=_MAX_STALLED_PODS
        )
        self._deployments = DeploymentController(
            self.client, port=self.runtime.network.port, publish=pods.in_containers
        )
        # For processes, an image is only a name: the default parameter server runs with this machine's TensorFlow.
        # Any type of service is safe here, because a TensorBoard listens only on loopback.
        options = Options(default_ps_image=_DEFAULT_PS_IMAGE, exposed_tensorboards=True)
        # Containers get a name, because the address of this process differs in each of their networks.
        host = f"{PROGRESS_SERVICE}.{_SYSTEM_NAMESPACE}.svc" if pods.in_containers else LOOPBACK
        if progress:
            options = msgspec.structs.replace(
                options,
                progress_bind_address=Address(LOOPBACK, 0),
                progress_url=f"https://{host}:{{port}}",
                progress_namespace=_SYSTEM_NAMESPACE,
                progress_writes_per_second=_PROGRESS_WRITES,
            )
        if archive_dir is not None:
            options = msgspec.structs.replace(options, archive_dir=str(archive_dir), archive_max_bytes=_ARCHIVE_BYTES)
        self._operator = Operator(
            self.client,
            options,
            reach=Reach(
                log_source=self.client,
                newest_line=self._newest_line,
                stacks=self._stacks,
                fetch=partial(self.client.get_raw, accept="*/*"),
            ),
            on_failure=on_failure,
        )
        reports = self._operator.progress
        self._host_service = None if reports is None else HostService(host, reports.port, reports.listen_also)
        self._to_serve = page
        self._page: Page | None = None
        self._on_quiet = on_quiet
        self._archive_dir = archive_dir
        self._cleanup = ExitStack()

    def start(self) -> None:
        """Start all components, the API server first, and the operator and the page last.

        If a start fails, stop the components that have started, and raise the error: RuntimeUnavailable if the runtime
        can't run on this machine, for example without a Docker engine, or OSError if a component can't get a file or a
        port.
        """
        raise_file_limit()
        with ExitStack() as undo:
            undo.callback(self._quietly, "API server", self._server.stop)
            undo.callback(self._quietly, "client", self.client.close)
            self._server.start()
            undo.callback(self._quietly, "last look", partial(self._on_quiet, self.client))
            undo.callback(self._quietly, "taker of stacks", self._stacks.close)
            undo.callback(self._quietly, "node agent", self.agent.stop)
            self.agent.start(self._host_service)
            undo.callback(self._quietly, "usage meter", self.meter.stop)
            self.meter.start()
            undo.callback(self._quietly, "deployment controller", self._deployments.stop)
            self._deployments.start()
            undo.callback(self._quietly, "operator", self._operator.stop)
            self._operator.start()
            if self._to_serve is not None:
                # The page has its own client, which watches while the page is served, and is closed with it.
                client = Client(client_config(self.endpoint))
                page = self._page = self._to_serve.make(
                    client, self._to_serve.on_link, self._archive_dir, self.agent.logs.attempts
                )
                undo.callback(self._quietly, "page", page.stop)
                page.start()
            self._cleanup = undo.pop_all()

    def stop(self) -> None:
        """Stop the components in the opposite order of `start`: each component stops before those that it uses.

        Idempotent.
        """
        self._cleanup.close()

    def hold_page(self) -> None:
        """Let the page show the present state of the jobs, and no later change."""
        if self._page is not None:
            self._page.hold()

    def observe(self, pod_key: str, report: ProgressReport) -> None:
        """Give the operator a progress report that was made from a pod's output.

        Do nothing if this object was made without `progress`. Any thread may call this method.
        """
        if self._operator.progress is not None:
            self._operator.progress.observe(pod_key, report)

    def _newest_line(self, pod: Pod) -> Seen:
        """Return when the training container last wrote output, and whether a signal has stopped its process (SIGSTOP).

        The time is the modification time of the log file, because the lines of the log have no timestamps.
        """
        where = (pod.metadata.namespace, pod.metadata.name, DEFAULT_CONTAINER_NAME)
        logs = self.agent.logs.attempts(*where)
        pid = logs[-1].pid if logs else None
        return Seen(self.agent.logs.written(*where), stopped=pid is not None and is_stopped(pid))

    def _quietly(self, what: str, stop: Callable[[], object]) -> None:
        try:
            stop()
        except Exception:
            logger.exception("stopping the %s failed", what)


class _AgentStacks:
    """Takes the place of the API client in a `StackTaker`.

    In a cluster, a `StackTaker` gets the stacks of a pod's threads by a command that it runs in the pod. Here, the node
    agent reads the stacks of all containers of the pod from outside, and `pod_exec` ignores the command.
    """

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent

    def pod_exec(
        self, namespace: str, name: str, container: str, command: Sequence[str], *, timeout: float, max_bytes: int
    ) -> Executed:
        from tfoperator.kube.http.sending.exec import Executed

        del container, command, timeout, max_bytes
        try:
            return Executed(b"".join(self._agent.read_stacks(LogRequest(namespace, name, ""))).decode(), "", 0)
        except LookupError as error:  # the pod has ended
            return Executed("", str(error), 1)


def client_config(endpoint: ReservedEndpoint) -> ClusterConfig:
    """Return the configuration (URL, CA and token) with which a client in this process reaches the API server."""
    return ClusterConfig(
        server=endpoint.url,
        tls=TlsOptions(ca=endpoint.certificate),
        credentials=StaticCredentials(bearer(endpoint.token, "the token of the embedded API server")),
        source="embedded control plane",
    )
