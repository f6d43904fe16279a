"""The background process of `tfoperator local up`: a control plane that runs until it is stopped.

To start a control plane in the foreground, run `python -m tfoperator.local.daemon STATE_DIRECTORY PORT RUNTIME
[--allow-privileged] [--enforce-limits]`. The process holds a lock while it runs, so a state directory can't have two
control planes. When the control plane is ready, the process records its own identity (process ID and start time) in the
state directory.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import yaml

from tfoperator.base.files import take_lock
from tfoperator.base.private_files import write_private
from tfoperator.local.controlplane import ControlPlane, PageMaker, ServedPage
from tfoperator.local.daemon.state_directory import RUNS_ALREADY, DaemonState, StateDirectory
from tfoperator.local.identity import identify
from tfoperator.local.node.volumes import VOLUMES, VolumeManager
from tfoperator.local.runtime.process.cleanup.records import RECORDS, kill_recorded
from tfoperator.local.runtime.protocol import RuntimeUnavailable
from tfoperator.local.runtime.selection import PROCESSES, RuntimeName, RuntimeOptions
from tfoperator.operator.logging import configure_logging
from tfoperator.operator.signal_queue import next_item

logger = logging.getLogger(__name__)


def serve(
    state: StateDirectory,
    port: int,
    pods: RuntimeOptions = PROCESSES,
    make_page: PageMaker | None = None,
) -> int:
    """Run a control plane until SIGTERM or SIGINT; a second signal ends all grace periods. Return the exit code.

    If the standard output of the process is `daemon.log` of the state directory, the process truncates this file after
    it has taken the lock. If another process holds the lock, the file stays unchanged.

    Raises OSError or RuntimeUnavailable if the control plane can't start.
    """
    state.create()
    with state.lock.open("w") as lock:
        if not take_lock(lock.fileno()):
            if state.is_log_of(sys.stdout.fileno()):
                return RUNS_ALREADY  # the other process writes the log, and `up` expects this exit code
            logger.error("a control plane already uses %s", state.root)
            return 1
        if state.is_log_of(sys.stdout.fileno()):
            os.truncate(state.log, 0)  # all writers append, so they continue at the new end
        for name in kill_recorded(state.run / RECORDS):
            logger.info("killed process %s, which a control plane had left running when it crashed", name)
        VolumeManager(state.run / VOLUMES).remove_left_behind()
        # A SimpleQueue, because a signal handler may call its `put`, which is reentrant.
        messages: queue.SimpleQueue[str] = queue.SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: messages.put("stop"))
        failures: list[str] = []

        def fail(reason: str) -> None:
            failures.append(reason)
            messages.put("stop")

        plane = ControlPlane(
            state.run,
            port=port,
            archive_dir=state.archive,
            pods=pods,
            progress=True,
            on_failure=fail,
            page=None if make_page is None else ServedPage(make_page, state.write_page_link),
        )
        plane.start()
        try:
            announced = _announce(state, plane, pods.name)
            next_item(messages)
            logger.info("stopping: %s", failures[0] if failures else "asked to")
            state.write(msgspec.structs.replace(announced, stopping=True))
        finally:
            _stop(plane, messages)
            state.clear()
    logger.info("stopped")
    return 1 if failures else 0


def _announce(state: StateDirectory, plane: ControlPlane, runtime: RuntimeName) -> DaemonState:
    write_private(state.kubeconfig, yaml.safe_dump(plane.endpoint.kubeconfig(), sort_keys=False).encode())
    identity = identify(os.getpid())
    assert identity is not None
    announced = DaemonState(identity, plane.endpoint.url, datetime.now(UTC), str(Path.cwd()), runtime=runtime)
    state.write(announced)
    logger.info("ready at %s", plane.endpoint.url)
    return announced


def _stop(plane: ControlPlane, messages: queue.SimpleQueue[str]) -> None:
    def stop() -> None:
        plane.stop()
        messages.put("stopped")

    threading.Thread(target=stop, name="stopper", daemon=True).start()
    while next_item(messages) != "stopped":
        plane.agent.kill_all()


def main(arguments: Sequence[str], make_page: PageMaker | None = None) -> int:
    """Run with the arguments of the command line (see the module's docstring). If `make_page` is set, serve a page."""
    configure_logging()
    directory, port, runtime, *flags = arguments
    try:
        pods = RuntimeOptions(
            RuntimeName(runtime),
            allow_privileged="--allow-privileged" in flags,
            enforce_limits="--enforce-limits" in flags,
        )
        return serve(StateDirectory(Path(directory)), int(port), pods, make_page)
    except (OSError, RuntimeUnavailable) as error:
        logger.error("can't start: %s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
