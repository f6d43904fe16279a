"""The control plane of `TFJobClient.local()`. Only that imports it: it imports the whole engine."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tfoperator.kube.client import Client
from tfoperator.local.controlplane import ControlPlane
from tfoperator.local.runtime.selection import RuntimeOptions


class LocalPlane:
    """A running control plane; `stop()` ends it and everything that it started. Thread-safe.

    Logs and volumes go to `run_dir`; without one to a directory that is removed at the end.
    """

    def __init__(self, run_dir: str | os.PathLike[str] | None, work_dir: str | os.PathLike[str] | None) -> None:
        with ExitStack() as undo:
            if run_dir is None:
                folder = undo.enter_context(
                    tempfile.TemporaryDirectory(prefix="tfoperator-", ignore_cleanup_errors=True)
                )
            else:
                os.makedirs(run_dir, mode=0o700, exist_ok=True)
                folder = os.fspath(run_dir)
            pods = RuntimeOptions(work_dir=None if work_dir is None else Path(work_dir))
            plane = ControlPlane(Path(folder), pods=pods, progress=True)
            undo.callback(plane.stop)
            plane.start()
            self._undo = undo.pop_all()
        self.client: Client = plane.client

    def stop(self) -> None:
        """Stop everything, in order. Idempotent."""
        self._undo.close()
