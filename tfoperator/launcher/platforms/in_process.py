"""Runs a component that is a Python class in this process: for small steps, and for tests of a pipeline."""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tfoperator.launcher.core import (
    ArtifactDict,
    BaseComponentLauncher,
    ContainerEnd,
    ExecutorClassSpec,
    ExecutorSpec,
    LaunchCancelled,
    LauncherError,
    MalformedOutput,
    Output,
    PlatformConfig,
    RetryableFailure,
    judge,
)
from tfoperator.launcher.platforms.own_output import own_output

logger = logging.getLogger(__name__)


class InProcessComponentLauncher(BaseComponentLauncher):
    """Takes class specs and no platform config. What the class prints is its log.

    `cancel` raises KeyboardInterrupt in the class's own code, as soon as that runs Python again. In the main thread
    only a signal handler may do so: while `busy`.
    """

    kind = "in-process"
    busy = False
    """Whether the class's own code runs at the moment."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lock = threading.Lock()  # guards _thread
        self._thread: int | None = None  # the one that runs the class's code, unless it is the main thread

    def cancel(self) -> None:
        """Interrupt the class where it is, and try nothing again. Idempotent, does not block."""
        with self._lock:
            if self._thread is not None and not self.cancelled.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(KeyboardInterrupt)
                )
        super().cancel()

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_config: PlatformConfig | None = None) -> bool:
        """Whether it is a class, and nothing is configured."""
        return isinstance(executor_spec, ExecutorClassSpec) and platform_config is None

    def check(self) -> None:
        """As for every launcher, and that the class can be imported."""
        super().check()
        self._spec.load()

    def dry_run(self) -> str:
        """The class and what it would get; it is not imported."""
        call = {
            "class": self._spec.path,
            "inputs": msgspec.to_builtins({k: list(v) for k, v in self.component.inputs.items()}),
            "outputs": msgspec.to_builtins({k: list(v) for k, v in self.component.outputs.items()}),
            "exec_properties": self.properties,
        }
        return yaml.safe_dump(call, sort_keys=False)

    @property
    def _spec(self) -> ExecutorClassSpec:
        spec = self.component.executor_spec
        assert isinstance(spec, ExecutorClassSpec)
        return spec

    def _run_executor(
        self,
        execution_id: int,
        input_dict: ArtifactDict,
        output_dict: ArtifactDict,
        exec_properties: Mapping[str, Any],
    ) -> Output | None:
        def attempt() -> Output | None:
            if self.cancelled.is_set():
                raise LaunchCancelled(f"component {self.component.name}: cancelled")
            begun = self.record.state == "planned" and self.record.name == ""
            self.context.store.clear(self.tmp_path)
            self.context.still_ours()
            self._advance("planned", attempt=self.record.attempt + (not begun), name=self._spec.path)
            return self._once(input_dict, output_dict, exec_properties)

        del execution_id
        return self._repeated(attempt, lambda error: isinstance(error, RetryableFailure))

    def _once(self, inputs: ArtifactDict, outputs: ArtifactDict, properties: Mapping[str, Any]) -> Output | None:
        end = ContainerEnd(exit_code=0)
        try:
            with own_output(self.context.log):
                self._interruptible(lambda: self._spec.load()().do(inputs, outputs, properties))
        except LauncherError:
            raise
        except KeyboardInterrupt:
            if threading.current_thread() is threading.main_thread():
                raise
            raise LaunchCancelled(f"component {self.component.name}: cancelled; its class was interrupted") from None
        except SystemExit as error:
            end = _exited(error)
        except BaseException as error:
            # Also what is no Exception, as asyncio's CancelledError: nothing of a class may end the whole process.
            logger.exception("component %s failed", self.component.name)
            end = ContainerEnd(exit_code=1, message=f"{type(error).__name__}: {error}")
        output = self._read_output()
        judge(end, output).raise_failure(f"component {self.component.name} failed")
        assert not isinstance(output, MalformedOutput)
        return output

    def _interruptible(self, work: Callable[[], None]) -> None:
        here = threading.current_thread()
        with self._lock:
            self._thread = None if here is threading.main_thread() else here.ident
            if self.cancelled.is_set():
                raise LaunchCancelled(f"component {self.component.name}: cancelled")
        self.busy = True
        try:
            work()
        finally:
            self.busy = False
            with self._lock:  # an interruption that was asked for before this arrives here at the latest
                self._thread = None

    def _cache_identity(self) -> str:
        """The digest of the file that the class is in: other code is another executor."""
        source = inspect.getsourcefile(self._spec.load())
        if source is None:
            logger.error("component %s: caching is disabled: its class has no source file", self.component.name)
            return ""
        return "sha256:" + hashlib.sha256(Path(source).read_bytes()).hexdigest()


def _exited(error: SystemExit) -> ContainerEnd:
    """What `sys.exit` means, as Python has it for a process: no code is 0, and what is no number is a message and 1."""
    code = error.code
    if code is None:
        return ContainerEnd(exit_code=0)
    if isinstance(code, int):
        return ContainerEnd(exit_code=code & 0xFF)
    return ContainerEnd(exit_code=1, message=str(code))
