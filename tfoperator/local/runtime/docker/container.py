"""A running Docker container. A thread copies its log to a file, and removes the container when it has ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docker.errors import NotFound
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    sleep_using_event,
    stop_after_attempt,
    wait_chain,
    wait_fixed,
)

from tfoperator.kube.protocol.retry import failure_of
from tfoperator.local.runtime.docker.engine import ENGINE_ERRORS, explain, remove_container
from tfoperator.local.runtime.protocol import ContainerIdentity, OnExit

logger = logging.getLogger(__name__)

_KILLED_CODE = 137
_RETRY_PAUSES = (0.2, 0.8, 2.0, 4.0, 8.0)
"""Seconds between attempts to read the exit code while the engine doesn't respond. The engine may be restarting."""


class DockerContainer:
    """A Docker container as a `ContainerProcess`.

    Thread-safe; call `start_waiting()` once, after the container was started.
    """

    def __init__(
        self,
        api: Any,
        container_id: str,
        *,
        image_id: str,
        label: str,
        log: Path,
        on_exit: OnExit,
        on_ended: Callable[[DockerContainer], None],
    ) -> None:
        self._api = api
        self.id = container_id
        """The engine's ID of the container."""
        self.identity = ContainerIdentity(f"docker://{container_id}", image_id)
        self._label = label
        self._log = log
        self._on_exit = on_exit
        self._on_ended = on_ended
        self._no_time = threading.Event()  # set by kill(): don't wait any longer for an engine that doesn't respond
        self._retrying = Retrying(
            retry=retry_if_exception_type(ENGINE_ERRORS) & retry_if_not_exception_type(NotFound),
            stop=stop_after_attempt(1 + len(_RETRY_PAUSES)),
            wait=wait_chain(*map(wait_fixed, _RETRY_PAUSES)),
            sleep=sleep_using_event(self._no_time),
            before_sleep=self._log_retry,
            reraise=True,
        )
        self._thread = threading.Thread(target=self._watch, name=f"container-{label}", daemon=True)

    def start_waiting(self) -> None:
        """Start to copy the log, and to wait for the container's end."""
        self._thread.start()

    def terminate(self) -> None:
        """Send the image's stop signal, by default SIGTERM, to the container's first process."""
        try:
            signal = self._api.inspect_container(self.id)["Config"].get("StopSignal") or "SIGTERM"
        except ENGINE_ERRORS as error:
            logger.debug("%s: %s", self._label, explain(error))
            return
        self._kill(signal)

    def kill(self) -> None:
        """Send SIGKILL to all processes of the container."""
        self._no_time.set()
        self._kill("SIGKILL")

    def stacks(self) -> str:
        """Return the stacks of the Python threads in the container.

        The method runs `python3 -m tfoperator.progress.stacks` in the container. The result contains only the processes
        that have called `tfoperator.progress.stacks.register()`.
        """
        try:
            made = self._api.exec_create(self.id, ["python3", "-m", "tfoperator.progress.stacks"])
            output = self._api.exec_start(made["Id"])
        except ENGINE_ERRORS as error:
            return f"No stacks: {explain(error)}.\n"
        return bytes(output).decode(errors="replace")

    def usage(self) -> tuple[float, int] | None:
        """Return the CPU time in seconds since the start, and the memory in bytes.

        Return None if the engine doesn't report them.
        """
        try:
            # With `one_shot`, the engine responds at once. Otherwise it takes two samples, a second apart.
            stats = self._api.stats(self.id, stream=False, one_shot=True)
        except ENGINE_ERRORS as error:
            logger.debug("the use of %s can't be measured: %s", self.id[:12], explain(error))
            return None
        return container_usage(stats)

    def join(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds until the container has ended, was removed, and `on_exit` has returned.

        Return whether this has happened.
        """
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _kill(self, signal: str) -> None:
        try:
            self._api.kill(self.id, signal=signal)
        except ENGINE_ERRORS as error:  # the container has ended; otherwise, `_await_end` reports the error
            logger.debug("%s: %s", self._label, explain(error))

    # The methods below run in the container's own thread.

    def _watch(self) -> None:
        self._copy_log()
        code, reason = self._await_end()
        remove_container(self._api, self.id)
        self._on_ended(self)
        self._on_exit(code, reason)

    def _copy_log(self) -> None:
        """Copy the log until the container has ended.

        After an error the rest of the log is lost, but the container continues.
        """
        try:
            with self._log.open("ab", buffering=0) as output:
                for piece in self._api.logs(self.id, stdout=True, stderr=True, stream=True, follow=True):
                    output.write(piece)
        except ENGINE_ERRORS as error:
            logger.warning("the log of %s is not complete: %s", self._label, explain(error))

    def _await_end(self) -> tuple[int, str]:
        try:
            state = self._retrying(self._state_at_end)
        except ENGINE_ERRORS:
            return _KILLED_CODE, "ContainerStatusUnknown"
        code = int(state.get("ExitCode", _KILLED_CODE))
        return code, "OOMKilled" if state.get("OOMKilled") and code != 0 else ""

    def _state_at_end(self) -> Any:
        self._api.wait(self.id, timeout=None)
        return self._api.inspect_container(self.id)["State"]

    def _log_retry(self, state: RetryCallState) -> None:
        logger.warning("waiting for the end of %s: %s", self._label, explain(failure_of(state)))


def image_of(api: Any, container_id: str) -> str:
    """Return the ID of a container's image; empty if the engine doesn't respond."""
    try:
        return str(api.inspect_container(container_id)["Image"])
    except ENGINE_ERRORS as error:
        logger.debug("the image of %s can't be found: %s", container_id[:12], explain(error))
        return ""


_NANOSECONDS = 1e9

_INACTIVE_FILE = ("inactive_file", "total_inactive_file")
"""The page cache that the kernel can reclaim at once, by its names in control groups of version 2 and version 1.
`docker stats` and kubelets do not count this memory either.
"""


def container_usage(stats: Mapping[str, Any]) -> tuple[float, int] | None:
    """Return (CPU time in seconds since the container's start, memory in bytes).

    Return None for a container that has ended. An engine also responds for a container that has ended, but without
    values.
    """
    cpu, memory = stats.get("cpu_stats") or {}, stats.get("memory_stats") or {}
    if "usage" not in memory:
        return None
    details = memory.get("stats") or {}
    inactive = next((details[name] for name in _INACTIVE_FILE if name in details), 0)
    spent = (cpu.get("cpu_usage") or {}).get("total_usage", 0)
    return float(spent) / _NANOSECONDS, max(0, int(memory["usage"]) - int(inactive))
