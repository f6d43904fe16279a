"""What every launcher does around an execution: check, driver, executor, publisher; and a record of how it stands.

A subclass says what it can launch and how one execution is run. Everything that must not depend on the platform is
here: bad input is found before anything is created, a launch that is over stays over, an interrupted one goes on.
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from tfoperator.clock import StopSignal
from tfoperator.launcher.component import TMP_PATH, Artifact, ArtifactDict, Component
from tfoperator.launcher.context import LaunchContext
from tfoperator.launcher.errors import (
    AlreadyFailed,
    LaunchCancelled,
    NoLauncherError,
    PermanentFailure,
    RetryableFailure,
    WorkDirectoryError,
)
from tfoperator.launcher.executor_specs import ExecutorClassSpec, ExecutorSpec
from tfoperator.launcher.metadata import Execution, cache_key, fingerprint
from tfoperator.launcher.output import MalformedOutput, Output, parse_output
from tfoperator.launcher.platform_configs import PlatformConfig
from tfoperator.launcher.record import LaunchRecord, LaunchState, WorkDirectory, new_run

__all__ = ["BaseComponentLauncher", "LaunchResult"]

logger = logging.getLogger(__name__)


class LaunchResult(msgspec.Struct, frozen=True):
    """A success. `outputs` and `exec_properties` are those of the component, where output.json says nothing else.

    `cached`: nothing ran, an earlier execution's outputs are used. `attempts` counts the executions of this launch.
    """

    component: str
    execution_id: int
    outputs: Mapping[str, tuple[Artifact, ...]]
    exec_properties: Mapping[str, Any]
    cached: bool = False
    attempts: int = 1
    image_id: str = ""


class BaseComponentLauncher(abc.ABC):
    """Launches one component. `launch()` once, from one thread; `cancel()` from any."""

    kind: ClassVar[str]
    """What the launcher is called on the command line and in records."""

    def __init__(
        self,
        component: Component,
        platform_config: PlatformConfig | None = None,
        *,
        context: LaunchContext | None = None,
    ) -> None:
        """Raises NoLauncherError if this launcher can't launch the component with this config."""
        if not self.can_launch(component.executor_spec, platform_config):
            given = type(platform_config).__name__ if platform_config else "no config"
            raise NoLauncherError(
                f"component {component.name}: {type(self).__name__} does not launch "
                f"{type(component.executor_spec).__name__} with {given}"
            )
        self.component = component
        self.platform_config = platform_config
        self.context = context or LaunchContext()
        self.cancelled = StopSignal()
        self.work = WorkDirectory(self.context.directory_of(component.name))
        self._record: LaunchRecord | None = None

    @classmethod
    @abc.abstractmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_config: PlatformConfig | None = None) -> bool:
        """Whether this launcher can launch such a component with such a config, or with none."""

    @abc.abstractmethod
    def _run_executor(
        self,
        execution_id: int,
        input_dict: ArtifactDict,
        output_dict: ArtifactDict,
        exec_properties: Mapping[str, Any],
    ) -> Output | None:
        """Run the work to its end; what output.json says, None if there is none.

        Raises PermanentFailure, RetryableFailure (after all tries), LaunchCancelled.
        """

    @abc.abstractmethod
    def dry_run(self) -> str:
        """What would be launched, for people and as YAML. Contacts nobody. Raises ComponentError."""

    def check(self) -> None:
        """Raise ComponentError for whatever is wrong with the component or its config. Contacts nobody."""
        self.dry_run()

    def cancel(self) -> None:
        """Stop what runs, gracefully, and make `launch` raise LaunchCancelled. Idempotent, does not block."""
        self.cancelled.set()

    def launch(self) -> LaunchResult:
        """Run the component to its end, or go on with a launch that the working directory knows of.

        Raises ComponentError before anything is created; AlreadyFailed, PermanentFailure, RetryableFailure,
        LaunchCancelled; KubeError and docker's errors if the platform can't be reached at all.
        """
        self.check()
        driver, publisher = self.context.metadata_of(self.component.name)
        with self.work:
            record = self._load()
            if record is None:
                identity = self._cache_identity() if self.context.cache else ""
                key = cache_key(self.component, identity) if identity else ""
                execution = driver.begin(self.component, key, self.context.clock.now())
                if execution.state == "succeeded":
                    self.context.tell(f"nothing to do: execution {execution.id} did the same, its outputs are used")
                    return self._result(execution, cached=True)
                record = LaunchRecord(self.component.name, self._fingerprint(), execution.id, new_run(), cache_key=key)
            self._record = record
            execution = self._execute(publisher)
            publisher.publish(execution)
            return self._result(execution)

    # For subclasses.

    @property
    def record(self) -> LaunchRecord:
        """Where the launch stands. Only while it is launched."""
        assert self._record is not None
        return self._record

    @property
    def tmp_path(self) -> str:
        """Where the container may write output.json."""
        return self.context.tmp_path or str(self.work.tmp)

    @property
    def properties(self) -> dict[str, Any]:
        """The component's parameters, with the launcher's own."""
        return {**self.component.exec_properties, TMP_PATH: self.tmp_path}

    def _advance(self, state: LaunchState, **changes: Any) -> None:
        """Write down where the launch stands now."""
        record = msgspec.structs.replace(self.record, state=state, **changes)
        self.work.save(record)
        self._record = record

    def _read_output(self, fallback: bytes | None = None) -> Output | MalformedOutput | None:
        """What the component says about itself: the file if there is one, else what came instead of it."""
        known = frozenset(self.component.outputs)
        try:
            data = self.context.store.read(self.tmp_path)
            data = fallback if data is None else data
            return None if data is None else parse_output(data, known)
        except MalformedOutput as error:
            return error

    def _cache_identity(self) -> str:
        """What exactly runs, as a digest; "" if that can't be known before it runs."""
        return ""

    def _configured(self) -> Any:
        """The config, for the fingerprint."""
        return self.platform_config.as_json() if self.platform_config else None

    # The life of a launch.

    def _load(self) -> LaunchRecord | None:
        record = self.work.load()
        if record is None:
            return None
        if not self.context.resume:
            self._begin_anew(record)
            return None
        where = f"working directory {self.work.path}"
        if (record.component, record.fingerprint) != (self.component.name, self._fingerprint()):
            raise WorkDirectoryError(
                f"{where} belongs to another launch (of {record.component}, with another container, config, input or "
                "parameter): choose another one, or remove it to begin anew"
            )
        if record.state == "failed":
            raise AlreadyFailed(
                f"component {record.component} has failed for good, and is not launched again: {record.message}. "
                f"To try it none the less, choose another working directory or remove {self.work.path}"
            )
        if record.state == "cancelled":
            return msgspec.structs.replace(record, run=new_run(), attempt=0, name="", uid="", state="retryable")
        return record

    def _begin_anew(self, record: LaunchRecord) -> None:
        """Forget a launch that is over; one that is not may have something running."""
        if record.name and record.state in ("planned", "created"):
            raise WorkDirectoryError(
                f"an unfinished launch of {record.component} is recorded in {self.work.path}, and {record.name} may "
                "still run: go on with it (--resume), or choose another working directory (--work-dir)"
            )
        self.work.forget()

    def _execute(self, publisher: Any) -> Execution:
        """Run it unless it has succeeded already. A failure is recorded and published before it is raised."""
        try:
            if self.record.state == "succeeded":
                self.context.tell("nothing to do: this launch has succeeded already")
                self._again_succeeded()
                said = msgspec.convert(self.record.output, Output) if self.record.output is not None else None
            else:
                said = self._run_executor(
                    self.record.execution_id, self.component.inputs, self.component.outputs, self.properties
                )
                plain = None if said is None else msgspec.to_builtins(said)
                self._advance("succeeded", output=plain)
        except PermanentFailure as error:
            self._fail("failed", str(error), publisher)
            raise
        except RetryableFailure as error:
            # The record says already how far it got: one that could not reach the API goes on with the same container.
            publisher.publish(self._execution("retryable", message=str(error)))
            raise
        except LaunchCancelled as error:
            self._fail("cancelled", str(error), publisher)
            raise
        said = said or Output()
        outputs = {name: tuple(artifacts) for name, artifacts in self.component.outputs.items()} | said.artifacts()
        properties = {**self.component.exec_properties, **said.exec_properties}
        return self._execution("succeeded", outputs=outputs, exec_properties=properties)

    def _again_succeeded(self) -> None:  # noqa: B027 - there need not be anything to do
        """A launch that has succeeded is launched again: a chance to finish what a crash has kept from being done."""

    def _fail(self, state: LaunchState, message: str, publisher: Any) -> None:
        self._advance(state, message=message)
        publisher.publish(self._execution(state, message=message))

    def _execution(self, state: str, **more: Any) -> Execution:
        record = self.record
        inputs = {name: tuple(artifacts) for name, artifacts in self.component.inputs.items()}
        known: dict[str, Any] = {
            "cache_key": record.cache_key,
            "image_id": record.image_id,
            "inputs": inputs,
            "exec_properties": dict(self.component.exec_properties),
            "ended": self.context.clock.now(),
        }
        return Execution(record.execution_id, record.component, state, **(known | more))

    def _result(self, execution: Execution, *, cached: bool = False) -> LaunchResult:
        return LaunchResult(
            execution.component,
            execution.id,
            execution.outputs,
            execution.exec_properties,
            cached,
            0 if cached else self.record.attempt,
            execution.image_id,
        )

    def _fingerprint(self) -> str:
        spec = self.component.executor_spec
        what = spec.path if isinstance(spec, ExecutorClassSpec) else msgspec.to_builtins(spec)
        component = self.component
        inputs, outputs = ({k: list(v) for k, v in d.items()} for d in (component.inputs, component.outputs))
        return fingerprint(self.kind, what, inputs, outputs, dict(component.exec_properties), self._configured())
