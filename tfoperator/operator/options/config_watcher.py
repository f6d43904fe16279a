"""Detects changes of the configuration file, and passes changed options to the running operator.

Only `accelerators` and `scheduling` can change while the operator runs.

The file is checked every 5 s. inotify would not be reliable: a ConfigMap's file is a symbolic link whose target is
replaced, and network file systems send no notifications.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from tfoperator.base.clock import Clock, Repetition, SystemClock
from tfoperator.base.files import file_mark
from tfoperator.operator.options.reading import read_config
from tfoperator.operator.options.settings import Options, OptionsError

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 5.0


class ConfigWatcher(Repetition):
    """Watches the configuration file, and calls `on_change` when `accelerators` or `scheduling` has changed.

    A thread of the watcher calls `on_change`. If the file is invalid, the error is logged once, and the previous
    options stay in use. A change of any other option is logged too, because such a change takes effect only at the next
    start. Call `start` and `stop` once each.
    """

    def __init__(
        self,
        options: Options,
        on_change: Callable[[Options], None],
        *,
        clock: Clock | None = None,
    ) -> None:
        """Initialize. `options` are the options in use; their field `config` is the path of the configuration file.

        `on_change` receives these options with the changed values.
        """
        self._path = options.config
        self._options = options
        self._on_change = on_change
        super().__init__(self._look, seconds=_LOOK_SECONDS, clock=clock or SystemClock(), name="config-watcher")
        # None, so that the first look reads the file: it may have changed since the options were read.
        self._signature: tuple[int, ...] | None = None
        self._problem = ""  # the last error in the log, until the file is valid again
        self._others: dict[str, Any] | None = None

    def _look(self) -> None:
        signature = file_mark(self._path)
        # After an error, read the file again even if its mark is the same: perhaps it could not be opened for a moment.
        if signature == self._signature and not self._problem:
            return
        self._signature = signature
        try:
            read = read_config(self._path)
        except OptionsError as error:
            if str(error) != self._problem:
                logger.error("the changed configuration is not valid, so the old configuration is used: %s", error)
            self._problem = str(error)
            return
        self._problem = ""
        before_change, default = self._options, Options()
        options = msgspec.structs.replace(
            before_change,
            accelerators=read.pop("accelerators", default.accelerators),
            scheduling=read.pop("scheduling", default.scheduling),
        )
        if options != before_change:
            self._options = options
            self._on_change(options)
        if options.accelerators != before_change.accelerators:
            logger.info("new pods get these accelerators: %s", ", ".join(options.accelerators) or "none")
        if options.scheduling != before_change.scheduling:
            logger.info("the priority classes and queues of the changed file are now allowed for new PodGroups")
        before, self._others = self._others, read
        if before is not None and before != read:
            changed = sorted(dict(before.items() ^ read.items()))
            logger.warning("changed in %s, but used only after the next start: %s", self._path, ", ".join(changed))
