"""The embedded control plane, wired: API server, operator, node agent and deployments, in one process over real HTTP.

Nothing here knows about one job or one terminal; `run` and the background process of `local up` stand on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from tfoperator.kube.client import Client
from tfoperator.kube.cluster import ClusterConfig
from tfoperator.kube.credentials import StaticCredentials, bearer
from tfoperator.kube.tls import TlsOptions
from tfoperator.local.apiserver import EmbeddedApiServer
from tfoperator.local.deployment_controller import DeploymentController
from tfoperator.local.nodeagent import NodeAgent
from tfoperator.local.runtimes import RuntimeName, make_runtime
from tfoperator.operator import Operator, Options

__all__ = ["RECORDS", "ControlPlane"]

logger = logging.getLogger(__name__)

RECORDS = "processes"
"""The folder of the run directory in which living process groups are recorded; see `process_runtime`."""

_ARCHIVE_BYTES = 1 << 30

_STOCK_IMAGE = "tensorflow/tensorflow"


class ControlPlane:
    """Starts and stops everything in order. `start()` and `stop()` once each, from one thread.

    `run_dir` gets logs, volumes and process records. `port` 0 takes a free one. `work_dir` is where containers start,
    by default the current directory. In `archive_dir` the operator keeps the logs of pods that it deletes.
    `runtime` is what pods run as; making it raises RuntimeUnavailable. `on_failure(reason)` is called, from another
    thread, if the operator can't go on.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        port: int = 0,
        token: str | None = None,
        keep_volumes: bool = False,
        work_dir: Path | None = None,
        archive_dir: Path | None = None,
        runtime: RuntimeName = RuntimeName.PROCESS,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        self.run_dir = run_dir
        self.server = EmbeddedApiServer(port=port, token=token)
        # No rate limit: the only one who could be overwhelmed is this process.
        self.client = Client(_config(self.server), qps=-1)
        self.runtime = make_runtime(runtime, records=run_dir / RECORDS, work_dir=work_dir)
        in_containers = runtime is not RuntimeName.PROCESS
        self.agent = NodeAgent(
            self.client, run_dir=run_dir, runtime=self.runtime, keep_volumes=keep_volumes, mount_volumes=in_containers
        )
        self._deployments = DeploymentController(self.client, port=self.runtime.network.port, publish=in_containers)
        # For processes an image is only a name: the stock parameter server runs with this machine's TensorFlow.
        options = Options(default_ps_image=_STOCK_IMAGE)
        if archive_dir is not None:
            options = msgspec.structs.replace(options, archive_dir=str(archive_dir), archive_max_bytes=_ARCHIVE_BYTES)
        self._operator = Operator(self.client, options, log_source=self.client, on_failure=on_failure)
        self._cleanup = ExitStack()

    def start(self) -> None:
        """Start everything, the server first and the operator last. What was started is stopped again if one fails.

        Raises OSError, RuntimeUnavailable.
        """
        with ExitStack() as undo:
            undo.callback(self._quietly, "API server", self.server.stop)
            undo.callback(self._quietly, "client", self.client.close)
            self.server.start()
            self.server.set_log_reader(self.agent.logs.read)
            undo.callback(self._quietly, "node agent", self.agent.stop)
            self.agent.start()
            undo.callback(self._quietly, "deployment controller", self._deployments.stop)
            self._deployments.start()
            undo.callback(self._quietly, "operator", self._operator.stop)
            self._operator.start()
            self._cleanup = undo.pop_all()

    def stop(self) -> None:
        """Stop in the opposite order: nobody restarts what is being stopped. Idempotent."""
        self._cleanup.close()

    def _quietly(self, what: str, stop: Callable[[], object]) -> None:
        try:
            stop()
        except Exception:
            logger.exception("stopping the %s failed", what)


def _config(server: EmbeddedApiServer) -> ClusterConfig:
    return ClusterConfig(
        server=server.url,
        tls=TlsOptions(ca=server.certificate),
        credentials=StaticCredentials(bearer(server.token, "the embedded API server's token")),
        source="embedded control plane",
    )
