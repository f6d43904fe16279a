"""Serves web pages on this machine: the page of an embedded control plane, or a page with only pipeline runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tfoperator.api.replicas.names import EMBEDDED_VERSION
from tfoperator.cli.terminal.errors import EXIT_FAILED, CliError
from tfoperator.cli.terminal.interruptions import Interruptions
from tfoperator.cli.terminal.output import note, say
from tfoperator.kube import KubeError
from tfoperator.kube.client import Client

if TYPE_CHECKING:
    from tfoperator.local.controlplane import LogAttempts
    from tfoperator.ui import UiServer

_LOOPBACK = ("127.0.0.1", "::1", "localhost")

DEFAULT_HOME = Path(".tfoperator", "pipelines")
"""The default directory for the records of pipelines."""


def make_page(
    client: Client,
    on_link: Callable[[str], object],
    archive_dir: Path | None,
    attempts: LogAttempts,
    commands: str | None = "",
) -> UiServer:
    """Make the page of a control plane, as `tfoperator.local.controlplane.PageMaker` describes.

    Raises ListenError if the page can't listen on a port.

    The page shows commands for the terminal. `commands` are the options with which these commands reach the control
    plane, or None if no options exist for this: then the page shows no commands.
    """
    # Imported only if used.
    from tfoperator.ui import PageContent, UiServer

    content = PageContent(
        source="this machine",
        archive_dir=archive_dir,
        pipelines=DEFAULT_HOME.absolute(),
        local=True,
        attempts=attempts,
        commands=commands,
    )
    return UiServer(client, content, on_link=on_link)


class LastingPage:
    """The page of a run of `tfoperator run`; it may stay after the run has ended.

    The control plane of the run calls `start`, `hold` and `stop`.
    """

    def __init__(self, *, stays: bool) -> None:
        """With `stays`, `stop` does not end the page: the caller must use `ended` or call `close`."""
        self._stays = stays
        self._server: UiServer | None = None

    def make(
        self, client: Client, on_link: Callable[[str], object], archive_dir: Path | None, attempts: LogAttempts
    ) -> LastingPage:
        """Make the page of the run, as `tfoperator.local.controlplane.PageMaker` describes.

        Raises ListenError if the page can't listen on a port.
        """
        self._server = make_page(client, on_link, archive_dir, attempts, None)
        return self

    def start(self) -> None:
        """Start to serve."""
        if self._server is not None:
            self._server.start()

    def hold(self) -> None:
        """Continue to show the present state of the jobs, and no later changes."""
        if self._server is not None:
            self._server.hold()

    def stop(self) -> None:
        """Stop serving, unless the page was made with `stays`."""
        if not self._stays:
            self.close()

    @contextmanager
    def ended(self, run_dir: Path) -> Iterator[None]:
        """Serve the records of the run until the end of the `with` block, then stop.

        Raises OSError or ValueError if the records can't be read.
        """
        from tfoperator.local.run.recorded_run import RecordedRun

        with RecordedRun(run_dir) as recorded:
            if self._server is not None:
                self._server.show_run(recorded)
            yield
            self.close()

    def close(self) -> None:
        """Stop serving. Idempotent."""
        if self._server is not None:
            self._server.stop()


def is_local(client: Client) -> bool:
    """Return whether the client's server is a control plane on this machine.

    This is so if the server has a loopback address, and reports the version of the embedded API server. The version
    alone is not enough, because any server can report any version. A wrong True would be unsafe: for a local server,
    the page may also show other pages at loopback addresses (TensorBoards) in frames.
    """
    host = urlsplit(client.server).hostname or ""
    if host not in _LOOPBACK:
        return False
    try:
        return EMBEDDED_VERSION in client.get_raw("/version").decode("utf-8", "replace")
    except KubeError:
        return False


def checked_home(place: str) -> Path | str:
    """Return the place of the records of pipelines: the absolute path of a directory, or the same URL.

    Raises ComponentError for a URL that can't be used.
    """
    if place and "://" not in place:
        return Path(place).absolute()
    from tfoperator.pipeline import Home

    Home(place).close()
    return place


@contextmanager
def served_page(
    client: Client | None, on_link: Callable[[str], object], *, port: int = 0, **content: Any
) -> Iterator[None]:
    """Serve a page while the `with` block runs. `content` are fields of `PageContent`.

    The server calls `on_link` with each new link for a browser. Raises CliError if the server can't listen on `port`.
    """
    # Imported only if used.
    from tfoperator.servers.http.limits import ListenError
    from tfoperator.ui import PageContent, UiServer

    try:
        server = UiServer(client, PageContent(**content), port=port, on_link=on_link)
    except ListenError as error:
        raise CliError(str(error), "Choose another --port, or leave --port out.", exit_code=EXIT_FAILED) from None
    try:
        server.start()
        yield
    finally:
        server.stop()


def serve_until_interrupted(client: Client | None, *, port: int = 0, **content: Any) -> None:
    """Serve a page with this content until the user presses Ctrl-C. Raises CliError if it can't listen on `port`."""
    ended = threading.Event()
    with Interruptions(ended.set), served_page(client, say, port=port, **content):
        ended.wait()
    note("the page has stopped")
