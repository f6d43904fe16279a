"""The server of the page, on loopback (127.0.0.1).

The server sends the files of the page to all clients, and data only to browsers with a session (`guard`). For requests
to the API server, the page's server uses the user's credentials. The page's server only reads, and changes nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

import tfoperator
from tfoperator.kube import ApiError, KubeError, NotFoundError
from tfoperator.kube.client import Client
from tfoperator.sdk import TFJobError
from tfoperator.servers.http.limits import Limits
from tfoperator.servers.http.messages import Answer, Request, StreamedAnswer
from tfoperator.servers.http.server import HttpServer
from tfoperator.ui.assets import NOT_STORED, assets
from tfoperator.ui.guard import MAX_FIELDS, Sessions, complaint, fields_in, token_in
from tfoperator.ui.jobs import streams
from tfoperator.ui.jobs.board import Cluster
from tfoperator.ui.jobs.earlier_runs import Attempts
from tfoperator.ui.jobs.logs import MAX_REPLICAS, LogFeed, Readers
from tfoperator.ui.jobs.texts import archived_log, archived_runs, job_report, job_yaml
from tfoperator.ui.problems import CannotRead, NotThere

if TYPE_CHECKING:
    from tfoperator.local.run.recorded_run import RecordedRun
    from tfoperator.ui.pipelines.pages import PipelinePages

T = TypeVar("T")
Query = dict[str, list[str]]

LIMITS = Limits(connections=128, per_source=64, body=4096, received=64 << 10, request_seconds=20.0, idle_seconds=60.0)
MAX_TAIL = 500_000
"""A response with a log begins at most this many lines before the current end of the log."""
_DEFAULT_TAIL = 10_000
_CALL_THREADS = 4
_MAX_WAITING_CALLS = 32
_JSON = "application/json"


class About(msgspec.Struct, frozen=True, rename="camel"):
    """The response to `/api/about`: the cluster whose data the page shows, and the parts that the page has.

    `archive` is True if the page shows the log archive, and `jobs` is True if it shows jobs. `pipelines` is the
    directory or URL of the shown pipeline runs, or "". `pipelines_problem` is the reason why the page can't show the
    pipeline runs, or "". `commands` and `comparison` are as in `PageContent`.
    """

    source: str
    namespaces: tuple[str, ...] = ()
    version: str = tfoperator.__version__
    archive: bool = False
    jobs: bool = True
    pipelines: str = ""
    pipelines_problem: str = ""
    commands: str | None = None
    comparison: Mapping[str, Any] | None = None


class PageContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the page. `UiServer` gets the client for the API server separately.

    - `namespaces` are the namespaces whose jobs the page shows. `("",)` means all namespaces.
    - `source` is the name of the cluster that the page shows.
    - `archive_dir` is the directory of the log archive.
    - `pipelines` is the directory or the URL of the database that contains the records of pipeline runs. The page shows
      pipeline runs as soon as there is a record. If the server has no client, the page shows only pipeline runs.
    - `local` means that the client's API server is the control plane of this machine. Then the page may show the
      TensorBoard of a job in a frame. TensorBoards of other clusters are never in a frame, because other users can
      change the address of a TensorBoard there.
    - `attempts` returns the log files of containers that run on this machine.
    - `run` is the recorded run that the client reads, if it reads a recorded run.
    - `commands` are the options with which a `tfoperator` command reaches the same cluster, or None if there are no
      such options.
    - `comparison`: if it is set, the page shows only this comparison of two runs.
    """

    namespaces: Sequence[str] = ("",)
    source: str = ""
    archive_dir: str | os.PathLike[str] | None = None
    pipelines: Path | str | None = None
    local: bool = False
    attempts: Attempts | None = None
    run: RecordedRun | None = None
    commands: str | None = None
    comparison: Mapping[str, Any] | None = None


_ALL_JOBS = PageContent()


class UiServer(HttpServer):
    """Serves the page at 127.0.0.1. Call `start()` once, then `stop()`, which also closes the client.

    The server calls `on_link(url)` with each link for a browser: first in the constructor, and then, from any thread,
    each time after a browser has used the current link. With port 0, the server selects a free port. The constructor
    raises ListenError if the server can't listen on the port.
    """

    def __init__(
        self,
        client: Client | None,
        content: PageContent = _ALL_JOBS,
        *,
        port: int = 0,
        on_link: Callable[[str], object] = lambda _: None,
    ) -> None:
        super().__init__("127.0.0.1", port, name="ui", limits=LIMITS)
        self.url = f"http://127.0.0.1:{self.port}/"
        self._archive = content.archive_dir or None
        self._about = About(
            content.source or (client.server if client is not None else "this machine"),
            tuple(name for name in content.namespaces if name),
            archive=self._archive is not None,
            jobs=client is not None,
            commands=content.commands,
            comparison=content.comparison,
        )
        self._local = content.local
        self._attempts = content.attempts
        self._cluster = None if client is None else Cluster(client, content.namespaces, content.local, content.run)
        self._home = content.pipelines
        self._pipelines: PipelinePages | None = None
        self._readers = Readers()
        self._calls = ThreadPoolExecutor(_CALL_THREADS, thread_name_prefix="ui-call")
        self._waiting = 0  # unfinished calls; used only in the loop's thread
        self._sessions = Sessions(self.port, lambda token: on_link(f"{self.url}#token={token}"))

    def start(self) -> None:
        """Start to respond to requests, in another thread.

        If `content.local` is True, also start to fill the caches now, and not only when a browser opens the page. So
        the curves of metrics begin at the start of a job.
        """
        super().start()
        if self._cluster is not None and self._local:
            self._cluster.watch()

    def hold(self) -> None:
        """Ignore all later changes of objects, and continue to show the last state.

        `tfoperator run` calls this method before it removes the objects of a run that has ended.
        """
        if self._cluster is not None:
            self._cluster.board.stop()

    def show_run(self, run: RecordedRun) -> None:
        """Show a recorded run in place of the cluster from now on. Pages that are already open show the run, too.

        The server keeps its own history of pods and of the jobs' phases (such as training or stalled), because the
        recorded run contains only their last state.
        """
        before = self._cluster
        history = None if before is None else before.board.history
        self._cluster = Cluster(run.client, ("",), self._local, run, history)
        self._cluster.watch()
        if before is not None:
            before.board.close()
            before.stop()

    def stop(self) -> None:
        """Stop listening, end the streams of all pages, and end all threads. Idempotent."""
        super().stop()
        if self._cluster is not None:
            self._cluster.stop()
        if self._pipelines is not None:
            self._pipelines.stop()
        self._readers.join()
        self._calls.shutdown(wait=True, cancel_futures=True)

    async def respond(self, request: Request) -> Answer | StreamedAnswer:
        """Return the response to a request: a file of the page, or, for a path below `/api/`, data or a stream.

        Only a request with a valid session gets data or a stream.
        """
        problem = complaint(request, self.port)
        if problem:
            return _refuse(HTTPStatus.FORBIDDEN, problem)
        if request.method == "POST" and request.path == "/api/session":
            return self._exchange(request)
        if request.method != "GET":
            return _refuse(HTTPStatus.METHOD_NOT_ALLOWED, "this server is read-only")
        if not request.path.startswith("/api/"):
            file = assets(frames=self._local).get(request.path)
            return file or _refuse(HTTPStatus.NOT_FOUND, "this file does not exist")
        if not self._sessions.knows(request):
            return _refuse(HTTPStatus.UNAUTHORIZED, "this browser has no session: open the link from the terminal")
        return await self._data(request)

    def _exchange(self, request: Request) -> Answer:
        session = self._sessions.exchange(token_in(request.body))
        if session is None:
            return _refuse(HTTPStatus.UNAUTHORIZED, "this link was already used, or belongs to another server")
        return _json({"key": session.key}, ("Set-Cookie", session.set_cookie))

    async def _data(self, request: Request) -> Answer | StreamedAnswer:
        query = fields_in(request.query)
        if query is None:
            return _refuse(HTTPStatus.BAD_REQUEST, f"the query of a request may have at most {MAX_FIELDS} fields")
        if request.path == "/api/about":
            try:
                pages = await self._pipeline_pages()
            except CannotRead as error:
                return _json(msgspec.structs.replace(self._about, pipelines_problem=str(error)))
            return _json(msgspec.structs.replace(self._about, pipelines=pages.place if pages is not None else ""))
        if request.path in ("/api/runs", "/api/run", "/api/artifact"):
            return await self._pipeline_data(request.path, query)
        if self._cluster is None:
            return _refuse(HTTPStatus.NOT_FOUND, "this page shows only pipeline runs. To see jobs, run tfoperator ui")
        return await self._job_data(self._cluster, request.path, query)

    async def _job_data(self, cluster: Cluster, path: str, query: Query) -> Answer | StreamedAnswer:
        client, archive = cluster.client, self._archive
        if path == "/api/jobs":
            cluster.watch()
            return _stream(streams.job_list(cluster))
        namespace, name = _first_value(query, "namespace"), _first_value(query, "name")
        if not namespace or not name:
            return _refuse(HTTPStatus.BAD_REQUEST, "the query must contain the namespace and the name of a job")
        if path == "/api/job":
            cluster.watch()
            return _stream(streams.one_job(cluster, f"{namespace}/{name}", *self._feed(cluster, query)))
        if path == "/api/yaml":
            return await self._call(lambda: job_yaml(client, namespace, name))
        if path == "/api/report":
            return await self._call(lambda: job_report(client, archive, namespace, name, cluster.run))
        if path == "/api/archive" and archive is not None:
            uid = _first_value(query, "uid") or None
            return await self._call(lambda: archived_runs(archive, namespace, name, uid))
        if path == "/api/archive/log" and archive is not None:
            wanted = {key: _first_value(query, key) for key in query}
            return await self._call(lambda: archived_log(archive, namespace, name, wanted, MAX_TAIL))
        return _refuse(HTTPStatus.NOT_FOUND, "this path does not exist")

    async def _pipeline_data(self, path: str, query: Query) -> Answer | StreamedAnswer:
        try:
            pages = await self._pipeline_pages()
        except CannotRead as error:
            return _refuse(HTTPStatus.FORBIDDEN, str(error))
        if pages is None:
            return _refuse(HTTPStatus.NOT_FOUND, "this page has no pipeline runs yet")
        if path == "/api/runs":
            return _stream(pages.runs())
        wanted = _first_value(query, "id")
        if path == "/api/run":
            return _stream(pages.run(wanted, _first_value(query, "step"), _tail(query)))
        return await self._call(lambda: pages.artifact(wanted))

    async def _pipeline_pages(self) -> PipelinePages | None:
        """Return the object that makes the streams of pipeline runs, or None.

        The result is None while there are no runs. It is also None if SQLAlchemy is not installed, because the server
        needs SQLAlchemy to read runs. Raises CannotRead if the directory or URL of the runs is not valid, for example
        because another user can change the files in the directory.
        """
        if self._pipelines is None and self._home is not None:
            made = await asyncio.get_running_loop().run_in_executor(self._calls, self._make_pages, self._home)
            self._pipelines = self._pipelines or made
        return self._pipelines

    def _make_pages(self, home: Path | str) -> PipelinePages | None:
        # `Home` also contains the path of the file, but `Home` can't be imported without SQLAlchemy. A URL counts as
        # existing, because the user has given the URL explicitly.
        exists = self._cluster is None or isinstance(home, str) or (home / "metadata.db").exists()
        if not exists or find_spec("sqlalchemy") is None:
            return None
        from tfoperator.launcher import ComponentError
        from tfoperator.pipeline import Home
        from tfoperator.ui.pipelines.pages import PipelinePages

        try:
            return PipelinePages(Home(home), self._find_job)
        except ComponentError as error:
            raise CannotRead(str(error)) from None

    def _find_job(self, uid: str) -> tuple[str, str] | None:
        """Return the namespace and name of the job with this UID, or None if the job is not in the cache.

        Any thread may call this method.
        """
        if self._cluster is None:
            return None
        self._cluster.watch()
        job = self._cluster.board.job_of_uid(uid)
        return None if job is None else (job.metadata.namespace, job.metadata.name)

    def _feed(self, cluster: Cluster, query: Query) -> tuple[LogFeed | None, list[str]]:
        replicas = [name for name in _first_value(query, "logs").split(",") if name][:MAX_REPLICAS]
        if not replicas:
            return None, []
        loop, attempts = asyncio.get_running_loop(), self._attempts if cluster.run is None else cluster.run.attempts
        feed = LogFeed(cluster.client, self._readers, loop, tail_lines=_tail(query), attempts=attempts)
        return feed, replicas

    async def _call(self, call: Callable[[], T]) -> Answer:
        """Run a blocking function in another thread. Return its result as JSON, or its error with an error status."""
        if self._waiting >= _MAX_WAITING_CALLS:
            return _refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are already waiting: try again later")
        self._waiting += 1
        try:
            return _json(await asyncio.get_running_loop().run_in_executor(self._calls, call))
        except (NotFoundError, NotThere, TFJobError) as error:
            return _refuse(HTTPStatus.NOT_FOUND, str(error))
        except ApiError as error:
            return _refuse(HTTPStatus.BAD_GATEWAY, f"the API server refused the request: {error}")
        except KubeError as error:
            return _refuse(HTTPStatus.BAD_GATEWAY, f"the API server does not answer: {error}")
        except CannotRead as error:
            return _refuse(HTTPStatus.BAD_GATEWAY, str(error))
        except OSError as error:
            return _refuse(HTTPStatus.BAD_GATEWAY, f"the log archive can't be read: {error.strerror or error}")
        finally:
            self._waiting -= 1


def _first_value(query: Query, name: str) -> str:
    return query.get(name, [""])[0]


def _tail(query: Query) -> int:
    """Return the number of lines, counted from the end of a log, that the query requests: from 1 to `MAX_TAIL`.

    Without a valid number in the query, return `_DEFAULT_TAIL`.
    """
    tail = _first_value(query, "tail")
    lines = int(tail) if tail.isascii() and tail.isdigit() and len(tail) < 7 else _DEFAULT_TAIL
    return max(1, min(lines, MAX_TAIL))


def _json(value: Any, *headers: tuple[str, str]) -> Answer:
    return Answer(msgspec.json.encode(value), content_type=_JSON, headers=(*NOT_STORED, *headers))


def _stream(chunks: Any) -> StreamedAnswer:
    return StreamedAnswer(chunks, content_type="application/x-ndjson", headers=NOT_STORED)


def _refuse(status: HTTPStatus, problem: str) -> Answer:
    return Answer(msgspec.json.encode({"problem": problem}), status, _JSON, NOT_STORED)
