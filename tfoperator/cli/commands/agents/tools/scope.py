"""The cluster and the files that tools may use. The user chose this cluster and these files at the server's start."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from tfoperator.cli.cluster import ClusterOptions
from tfoperator.cli.commands.agents.messages.arguments import AboutJob
from tfoperator.cli.recorded import client_of, of_run
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.kube.client import Client
from tfoperator.kube.config.loading import load_config
from tfoperator.kube.protocol.errors import ConfigError, UnauthorizedError
from tfoperator.local.run.kept import KeptRun
from tfoperator.sdk import TFJobClient

Step = Callable[[str], None]
"""A function with which a running call reports its present step, for example `reading logs`."""


class JobOf(msgspec.Struct, frozen=True):
    """The job for which a tool was called, with a client that can read it.

    `run` is the run on this machine that contains the job. For a job in a cluster, `run` is None.
    """

    client: TFJobClient
    name: str
    run: KeptRun | None = None


class Scope:
    """The cluster, the folder of runs (the current directory), the pipelines and the files that tools may use.

    Thread-safe. If `cluster.namespace` is set, tools can't read or change the cluster's other namespaces. `files` maps
    each FILE argument, as the user typed it, to its absolute path. Only these files may be run or submitted.
    """

    def __init__(
        self,
        cluster: ClusterOptions,
        *,
        archive_dir: str | None = None,
        pipelines: str = "",
        files: dict[str, Path] | None = None,
    ) -> None:
        self.cluster = cluster
        self.archive_dir = archive_dir
        self.pipelines = pipelines
        self.files = files or {}
        self._api: Client | None = None
        self._lock = threading.Lock()  # guards _api

    def close(self) -> None:
        """End every running request, and close the connections."""
        with self._lock:
            api, self._api = self._api, None
        if api is not None:
            api.close()

    def namespace(self, asked: str | None, *, everywhere: bool = False) -> str | None:
        """Return the namespace to use: "" means all namespaces, and None the namespace of the kubeconfig's context.

        Raises CliError for a namespace that the server may not use.
        """
        limit = self.cluster.namespace
        if limit is not None and (everywhere or asked not in (None, limit)):
            raise CliError(
                f"this server is limited to namespace {limit}", f"Leave out the namespace, or set it to {limit}."
            )
        return limit if limit is not None else "" if everywhere else asked

    @contextmanager
    def cluster_client(self, namespace: str | None = None) -> Iterator[TFJobClient]:
        """Return a client of the cluster's jobs. Raises ConfigError if no usable cluster is configured.

        All calls share one API client. After a 401 response the client is closed, so the next call reads the kubeconfig
        again.
        """
        with self._lock:
            if self._api is None:
                self._api = Client(load_config(self.cluster.kubeconfig, self.cluster.context))
            api = self._api
        try:
            yield TFJobClient(client=api, namespace=namespace or self.cluster.namespace, archive_dir=self.archive_dir)
        except UnauthorizedError:
            self.close()
            raise

    def run_of(self, word: str) -> KeptRun | None:
        """Return the run on this machine that a word names (RUN, RUN/JOB or latest); None if no such run exists.

        Raises CliError if another user may replace the files of the run.
        """
        return of_run(word.partition("/")[0], ClusterOptions())[0]

    @contextmanager
    def job(self, asked: AboutJob) -> Iterator[JobOf]:
        """Return the job for which a tool was called.

        Raises CliError if the run or its job does not exist, if another user may replace the files of the run, if the
        server may not use the namespace, or if no usable cluster is configured.
        """
        run = self.run_of(asked.job)
        if run is None:
            if "/" in asked.job:
                raise CliError(
                    f"{asked.job}: this run does not exist", "To list the runs, call list_jobs.", exit_code=EXIT_FAILED
                )
            with ExitStack() as closing:
                try:
                    client = closing.enter_context(self.cluster_client(self.namespace(asked.namespace)))
                except ConfigError as error:
                    problem = (
                        f"{asked.job}: there is no such run in this folder, and the cluster can't be read: {error}"
                    )
                    raise CliError(problem, "To list the runs, call list_jobs.", exit_code=EXIT_FAILED) from None
                yield JobOf(client, asked.job)
            return
        _, _, job = asked.job.partition("/")  # the pattern of `JobWord` excludes parts like `..`
        with client_of(f"{run.name}/{job}" if job else run.name, ClusterOptions()) as (client, name):
            yield JobOf(client, name, run)

    def file(self, word: str) -> Path:
        """Return the path of a file that the user named when the server started. Raises CliError for any other file."""
        if word not in self.files:
            named = ", ".join(self.files) or "none"
            raise CliError(
                f"{word}: this file was not named when the server was started (the files are: {named})",
                "Start the server with this file: tfoperator mcp --allow-changes FILE ...",
            )
        return self.files[word]
