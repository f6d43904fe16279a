"""Notices when the configuration file changes, and passes on what may change while the operator runs: accelerators.

The file is looked at every few seconds instead of being watched by the kernel: a ConfigMap's file is a symbolic link
that is changed elsewhere, and network file systems tell nobody.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfoperator.clock import Clock, StopSignal, SystemClock
from tfoperator.controller import Accelerator
from tfoperator.operator.options import Options, OptionsError, read_config

__all__ = ["ConfigWatcher"]

logger = logging.getLogger(__name__)

_RELOADED = "accelerators"


class ConfigWatcher:
    """Calls `on_accelerators`, from its own thread, each time the file says something else. `start`, `stop` once each.

    A file that is wrong changes nothing: the error is logged, once, and what was read before holds. That other options
    have changed is logged, too, for they take effect at the next start.
    """

    def __init__(
        self,
        options: Options,
        on_accelerators: Callable[[Mapping[str, Accelerator]], None],
        *,
        period: float = 5.0,
        clock: Clock | None = None,
    ) -> None:
        """`options` are those in use, read from the file that they name."""
        self._path = options.config
        self._accelerators = options.accelerators
        self._on_accelerators = on_accelerators
        self._period = period
        self._clock = clock or SystemClock()
        self._stop = StopSignal()
        self._thread = threading.Thread(target=self._run, name="config-watcher", daemon=True)
        # Nothing yet: the file may have changed since the options were read.
        self._signature: tuple[int, ...] | None = None
        self._others: dict[str, Any] | None = None

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. Idempotent."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._clock, self._period):
            try:
                self._look()
            except Exception:
                logger.exception("looking at %s failed unexpectedly", self._path)

    def _look(self) -> None:
        signature = _signature(self._path)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            read = read_config(self._path)
        except OptionsError as error:
            logger.error("the changed configuration is not used: %s", error)
            return
        accelerators = read.pop(_RELOADED, {})
        if accelerators != self._accelerators:
            self._accelerators = accelerators
            self._on_accelerators(accelerators)
            logger.info("new pods are made with the accelerators: %s", ", ".join(accelerators) or "none")
        before, self._others = self._others, read
        if before is not None and before != read:
            changed = sorted(dict(before.items() ^ read.items()))
            logger.warning("changed in %s, but used from the next start on: %s", self._path, ", ".join(changed))


def _signature(path: str) -> tuple[int, ...] | None:
    """What differs if the file does; None if there is none."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size)
