"""Shows where the API server spends its CPU during a run: asks its own pprof piece by piece, and writes one file.

A profile needs a length beforehand, and the length of a run is not known. So short profiles are taken one after the
other, and `go tool pprof` merges them. Being profiled costs the API server a few hundredths of its CPU: don't compare
figures of such a run with figures of other runs.
"""

from __future__ import annotations

import http.client
import subprocess
import threading
from pathlib import Path

from hack import gobuild
from hack.bench.raw_http import RawClient, RequestFailed

_PIECE_SECONDS = 5
_MERGE_SECONDS = 120.0
_SHOWN = 40


class ProfileError(Exception):
    """There is no profile; the message names the reason."""


class ApiServerProfile:
    """A profile from `start()` to `stop()`, whose client must be an administrator's."""

    def __init__(self, client: RawClient, target: Path, pieces: Path) -> None:
        """It becomes `target`, with the text of its top in a file beside it; `pieces` is a folder of its own."""
        self._client = client
        self._target = target
        self._pieces = pieces
        self._stopping = threading.Event()
        self._error: Exception | None = None  # of the thread, read when that has ended
        self._thread = threading.Thread(target=self._take, name="API server's profile", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._pieces.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def stop(self) -> Path:
        """Wait for the piece that is being taken (5 s at most), and write the file. Raises ProfileError, BuildError."""
        self._stopping.set()
        self._thread.join()
        pieces = sorted(self._pieces.glob("*.pb.gz"))
        if self._error is not None or not pieces:
            raise ProfileError(f"the API server gave no profile: {self._error}")
        self._target.parent.mkdir(parents=True, exist_ok=True)
        _pprof("-proto", f"-output={self._target}", *map(str, pieces))
        top = _pprof("-top", f"-nodecount={_SHOWN}", str(self._target))
        self._target.with_suffix("").with_suffix(".txt").write_text(top)
        return self._target

    def _take(self) -> None:
        number = 0
        try:
            while not self._stopping.is_set():
                profile = self._client.request("GET", f"/debug/pprof/profile?seconds={_PIECE_SECONDS}")
                (self._pieces / f"{number:05}.pb.gz").write_bytes(profile)
                number += 1
        except (OSError, http.client.HTTPException, RequestFailed) as error:
            self._error = error


def _pprof(*arguments: str) -> str:
    command = [str(gobuild.find_go()), "tool", "pprof", *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_MERGE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfileError(f"go tool pprof: {error}") from error
    if done.returncode != 0:
        raise ProfileError(f"go tool pprof failed: {done.stderr.strip()[-500:]}")
    return done.stdout
