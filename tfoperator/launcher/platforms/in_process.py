"""Runs a component that is a Python class in this process: for small steps, and for tests of a pipeline.

Several classes may run at the same time, in different threads. Each class needs its own log. So while a class runs,
`sys.stdout` and `sys.stderr` are replaced by objects that read a context variable. The variable is set in the class's
thread, in its coroutines, and in threads that were started with a copy of its context. Text from code for which the
variable is set goes to the class's log, line by line. All other text goes to the original streams, for example the text
from threads that the class has started without its context.
"""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

import msgspec
import yaml

from tfoperator.launcher.core.component import (
    ArtifactDict,
    ExecutorArtifact,
    ExecutorClassSpec,
    ExecutorSpec,
    PlatformConfig,
    source_digest,
)
from tfoperator.launcher.core.component_launcher import BaseComponentLauncher
from tfoperator.launcher.core.errors import (
    LaunchCancelled,
    LauncherError,
    PermanentFailure,
    RetryableFailure,
)
from tfoperator.launcher.core.output import ContainerEnd
from tfoperator.launcher.core.output_document import Output, OutputArtifact

logger = logging.getLogger(__name__)


_MAX_LINE = 64 << 10
"""The maximum number of characters of a line. A longer line is cut into several lines, so that output without line ends
can't fill the memory.
"""
_STREAMS = ("stdout", "stderr")


class _Lines:
    """Collects the text of one stream of a class, and passes complete lines to `log`. Thread-safe."""

    def __init__(self, log: Callable[[str], object]) -> None:
        self._log = log
        # Guards _rest. Reentrant: a signal handler or a destructor may print while its own thread holds the lock.
        self._lock = threading.RLock()
        self._rest = ""

    def add(self, text: str) -> None:
        """Add text, and pass the lines that are complete to `log`."""
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            whole = [piece for line in lines for piece in _cut(line)]
            *more, self._rest = _cut(self._rest)
        self._hand_over(whole + more)

    def end(self) -> None:
        """Pass the rest of the text, a line without a line end, to `log`."""
        with self._lock:
            rest, self._rest = self._rest, ""
        self._hand_over([rest] if rest else [])

    def _hand_over(self, lines: Iterable[str]) -> None:
        own = _own.set(None)  # `log` may print the line: it must go to the original stream
        try:
            for line in lines:
                self._log(line)
        finally:
            _own.reset(own)


_own: ContextVar[dict[str, _Lines] | None] = ContextVar("own_output", default=None)


def _cut(line: str) -> list[str]:
    return [line[start : start + _MAX_LINE] for start in range(0, len(line), _MAX_LINE)] or [""]


class _Switch:
    """Replaces `sys.stdout` or `sys.stderr` while classes of components run.

    Text that the class of a component prints goes to the `_Lines` of this component. The original stream gets all other
    text, and handles all other attributes.
    """

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self.stream = stream

    def write(self, text: str) -> int:
        own = _own.get()
        if own is None:
            return self.stream.write(text)
        own[self._name].add(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Switches:
    """Replaces `sys.stdout` and `sys.stderr` while the class of at least one component runs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the fields below
        self._users = 0
        self._switches: dict[str, _Switch] = {}

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                there = {name: getattr(sys, name) for name in _STREAMS}
                self._switches = {name: _Switch(name, stream) for name, stream in there.items() if stream is not None}
                for name, switch in self._switches.items():
                    setattr(sys, name, cast(TextIO, switch))

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for name, switch in self._switches.items():
                    # Other code may have replaced the stream permanently meanwhile.
                    if getattr(sys, name) is switch:
                        setattr(sys, name, switch.stream)


_switches = _Switches()


@contextmanager
def own_output(log: Callable[[str], object]) -> Iterator[None]:
    """Call `log` with each line that code in the current `contextvars` context prints within the `with` block.

    The lines have no line ends.
    """
    own = {name: _Lines(log) for name in _STREAMS}
    _switches.enter()
    token = _own.set(own)
    try:
        yield
    finally:
        _own.reset(token)
        _switches.leave()
        for lines in own.values():
            lines.end()


class InProcessComponentLauncher(BaseComponentLauncher):
    """Accepts class specs without a platform config. Text that the class prints is its log.

    `cancel` raises KeyboardInterrupt in the code of the class. If this code is in a call of C code, such as
    `time.sleep`, the exception is raised after the call. If the class runs in the main thread, `cancel` does not
    interrupt it. A signal handler may then raise KeyboardInterrupt, but only while `busy` is true.
    """

    kind = "in-process"
    busy = False
    """Whether the code of the class is running at the moment."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lock = threading.Lock()  # guards _thread
        self._thread: int | None = None  # the thread of the class's code, unless it is the main thread

    def cancel(self) -> None:
        """Interrupt the class, and start no more attempts. Idempotent, does not block."""
        with self._lock:
            if self._thread is not None and not self.cancelled.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(KeyboardInterrupt)
                )
        super().cancel()

    @classmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_spec: PlatformConfig | None = None) -> bool:
        """Return whether the executor spec is a class spec, and there is no platform config."""
        return isinstance(executor_spec, ExecutorClassSpec) and platform_spec is None

    def check(self) -> None:
        """Run the checks of the base class, and check that the class can be imported."""
        super().check()
        self._spec.load()

    def dry_run(self) -> str:
        """Return the class and its arguments. This does not import the class."""
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
            self._clear_output()
            self.context.still_ours()
            self._advance("planned", attempt=self.record.attempt + (not begun), name=self._spec.path)
            return self._once()

        del execution_id
        self._runs_with(input_dict, output_dict, exec_properties)
        return self._repeated(attempt)

    def _once(self) -> Output | None:
        end = ContainerEnd(exit_code=0)
        inputs, outputs = (
            {name: list(map(ExecutorArtifact, artifacts)) for name, artifacts in side.items()}
            for side in (self.component.inputs, self.component.outputs)
        )
        try:
            with own_output(self.context.log):
                self._interruptible(lambda: _work_of(self._spec.load()())(inputs, outputs, self.properties))
        except PermanentFailure as error:
            if self.context.retry.any_failure:
                raise RetryableFailure(str(error)) from error
            raise
        except LauncherError:
            raise
        except KeyboardInterrupt:
            if threading.current_thread() is threading.main_thread():
                raise
            raise LaunchCancelled(f"component {self.component.name}: cancelled; its class was interrupted") from None
        except SystemExit as error:
            end = _exited(error)
        except BaseException as error:  # noqa: BLE001 - the step's log gets the traceback
            # Also BaseExceptions such as asyncio's CancelledError: an error of an executor class must not end the whole
            # process.
            for text in traceback.format_exception(error):
                for line in text.splitlines():
                    self.context.log(line)
            end = ContainerEnd(exit_code=1, message=f"{type(error).__name__}: {error}")
        verdict = self._judged(end)
        verdict.raise_failure(f"component {self.component.name} failed")
        output = self._with_what_it_set(verdict.output, outputs)
        self._record = msgspec.structs.replace(self.record, output=output)
        return output

    def _with_what_it_set(self, output: Output | None, outputs: Mapping[str, list[ExecutorArtifact]]) -> Output | None:
        """Return output.json, extended by the outputs whose ExecutorArtifacts the class has changed, added or removed.

        If output.json itself contains an output, the change of its ExecutorArtifact is ignored. Raises PermanentFailure
        if a changed output can't be JSON.
        """
        made: dict[str, Any] = {}
        try:
            for name, planned in self.component.outputs.items():
                now = [OutputArtifact(artifact.uri, artifact.properties) for artifact in outputs.get(name, planned)]
                if [(artifact.uri, artifact.properties) for artifact in now] != [
                    (artifact.uri, artifact.properties) for artifact in planned
                ]:
                    made[name] = now
            msgspec.json.encode(made)
        except (AttributeError, TypeError, ValueError) as error:
            what = "the outputs that its class has set are not artifacts, or not JSON"
            raise PermanentFailure(f"component {self.component.name}: {what}: {error}") from error
        if not made:
            return output
        output = output or Output()
        return msgspec.structs.replace(output, outputs={**made, **output.outputs})

    def _interruptible(self, work: Callable[[], object]) -> None:
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
            with self._lock:  # a KeyboardInterrupt from `cancel` is raised here at the latest
                self._thread = None

    def _cache_identity(self) -> str:
        """Return the digest of the class's source file, or "" (and log an error) if there is no such file."""
        digest = source_digest(self._spec.load())
        if not digest:
            logger.error("component %s: caching is disabled, because its class has no source file", self.component.name)
        return digest


def _work_of(executor: Any) -> Callable[..., object]:
    """Return the method `do` of an executor, or the method `Do` if there is no `do`."""
    work: Callable[..., object] = executor.do if callable(getattr(executor, "do", None)) else executor.Do
    return work


def _exited(error: SystemExit) -> ContainerEnd:
    """Return how a process with this SystemExit would end.

    For the code None, the exit code is 0. For a text or another object, the exit code is 1, and the message is the text
    of the object.
    """
    code = error.code
    if code is None:
        return ContainerEnd(exit_code=0)
    if isinstance(code, int):
        return ContainerEnd(exit_code=code & 0xFF)
    return ContainerEnd(exit_code=1, message=str(code))
