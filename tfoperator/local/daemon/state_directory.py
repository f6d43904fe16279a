"""The files with which `tfoperator local up`, `down` and `status` find the background control plane.

All files are in one directory. Only its owner can read the directory, because the kubeconfig contains a token. The
files are: `kubeconfig`, `state.json` (process and URL), `page-link` (a link that opens the web page once), `lock`,
`daemon.log`, and `run/` with logs, volumes, the log archive and process records (files that name the processes of
containers, so that a later control plane can kill them after a crash).
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import msgspec

from tfoperator.base.files import is_locked
from tfoperator.base.private_files import make_folders, write_private
from tfoperator.kube.protocol.errors import UNDECODABLE
from tfoperator.local.identity import ProcessIdentity, is_alive
from tfoperator.local.runtime.selection import RuntimeName

RUNS_ALREADY = 75
"""The exit code of a background process that found another control plane in its directory: EX_TEMPFAIL of
sysexits.h.
"""


class DaemonState(msgspec.Struct, frozen=True, rename="camel"):
    """The content of `state.json`: the background control plane that runs, or that has crashed."""

    process: ProcessIdentity
    url: str
    since: datetime
    work_directory: str
    stopping: bool = False
    runtime: RuntimeName = RuntimeName.PROCESS

    @property
    def alive(self) -> bool:
        """Whether the process that was recorded still runs. Another process with the same ID does not count."""
        return is_alive(self.process)


class StateDirectory:
    """The files of one control plane. If files are missing or broken, this means that there is no control plane."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kubeconfig = root / "kubeconfig"
        self.log = root / "daemon.log"
        self.lock = root / "lock"
        self.run = root / "run"
        self.archive = self.run / "archive"
        self._state = root / "state.json"
        self._page_link = root / "page-link"

    def create(self) -> None:
        """Create the directory. Only its owner can access it."""
        make_folders(self.root)
        self.root.chmod(0o700)

    def is_locked(self) -> bool:
        """Return whether a control plane runs with this directory, or is starting."""
        return is_locked(self.lock)

    def is_log_of(self, descriptor: int) -> bool:
        """Return whether a file descriptor refers to `daemon.log`."""
        try:
            return os.path.samestat(os.fstat(descriptor), self.log.stat())
        except OSError:
            return False

    def read(self) -> DaemonState | None:
        """Return the recorded state of the control plane. Return None if it is missing or unreadable."""
        try:
            return msgspec.json.decode(self._state.read_bytes(), type=DaemonState)
        except (OSError, *UNDECODABLE):
            return None

    def write(self, state: DaemonState) -> None:
        """Record the running control plane."""
        write_private(self._state, msgspec.json.encode(state))

    @property
    def page_link(self) -> str:
        """A link that gives a single browser access to the web page. It is empty if no link was recorded."""
        try:
            return self._page_link.read_text()
        except OSError:
            return ""

    def write_page_link(self, url: str) -> None:
        """Record the next link that opens the page."""
        write_private(self._page_link, url.encode())

    def clear(self) -> None:
        """Remove the state, the kubeconfig and the link of a control plane that has stopped."""
        self._state.unlink(missing_ok=True)
        self.kubeconfig.unlink(missing_ok=True)
        self._page_link.unlink(missing_ok=True)


def default_state_directory() -> Path:
    """Return `$XDG_STATE_HOME/tfoperator/local`.

    If this variable is not set, return `~/.local/state/tfoperator/local`.
    """
    base = os.environ.get("XDG_STATE_HOME", "")
    # The XDG specification requires that a relative path is ignored.
    state = Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "state"
    return state / "tfoperator" / "local"
