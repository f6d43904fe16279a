"""The base class of all launchers. A launch checks its input, calls the driver, runs the executor, calls the publisher.

A subclass decides which components it can launch, and how it runs one execution. The rules for all platforms are here:
the launcher finds bad input before it creates anything; it does not repeat a launch that has ended; it resumes an
interrupted launch. A file or a database row, the launch record, contains the progress of the launch.
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import msgspec
import yaml

from tfoperator.base.clock import StopSignal
from tfoperator.launcher.core.component import (
    TMP_PATH,
    ArtifactDict,
    Component,
    ExecutorClassSpec,
    ExecutorSpec,
    LaunchResult,
    PlatformConfig,
    source_digest,
)
from tfoperator.launcher.core.context import LaunchContext
from tfoperator.launcher.core.errors import (
    ComponentError,
    LaunchCancelled,
    NoLauncherError,
    PermanentFailure,
    PlatformUnavailable,
    RetryableFailure,
)
from tfoperator.launcher.core.metadata import Execution, Publisher, fingerprint
from tfoperator.launcher.core.output import (
    ContainerEnd,
    ExecutionVerdict,
    judge,
    read_output,
)
from tfoperator.launcher.core.output_document import Output
from tfoperator.launcher.core.record import (
    Decided,
    LaunchRecord,
    LaunchState,
    WorkDirectory,
    new_run,
    recorded_execution,
)
from tfoperator.object_store import ObjectStoreError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class BaseComponentLauncher(abc.ABC):
    """Launches one component. One thread calls `launch()` once. Any thread may call `cancel()`."""

    kind: ClassVar[str] = ""
    """The launcher's name on the command line and in launch records, such as `docker`. `launcher.platforms.stopping`
    reads the name in the record of a dead launcher, to stop its containers with the same kind of launcher.
    """

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
                f"component {component.name}: {type(self).__name__} can't launch "
                f"{type(component.executor_spec).__name__} with {given}"
            )
        self.component = component
        self._declared = component  # as given, before the driver's decision
        self.platform_config = platform_config
        self.context = context or LaunchContext()
        self.cancelled = StopSignal()
        self.work = WorkDirectory(self.context.directory_of(component.name), self.context.keeper)
        self._record: LaunchRecord | None = None

    @classmethod
    @abc.abstractmethod
    def can_launch(cls, executor_spec: ExecutorSpec, platform_spec: PlatformConfig | None = None) -> bool:
        """Return whether this launcher accepts a component with this executor and this config (None: no config)."""

    @abc.abstractmethod
    def _run_executor(
        self,
        execution_id: int,
        input_dict: ArtifactDict,
        output_dict: ArtifactDict,
        exec_properties: Mapping[str, Any],
    ) -> Output | None:
        """Run the executor with these arguments until it ends, with retries. Return the content of its output.json.

        Return None if the executor wrote no output.json. A subclass may override the method, change the arguments, and
        call `super()`: the changed arguments are used and recorded. Raises PermanentFailure, RetryableFailure (after
        all attempts), LaunchCancelled.
        """

    def dry_run(self) -> str:
        """Return the launch as YAML, to show it to users. Makes no request.

        Raises ComponentError if the component or its config is invalid.
        """
        config = self.platform_config.as_json() if self.platform_config is not None else {}
        shown = {"launcher": type(self).__qualname__, "component": self.component.name, "config": config}
        return yaml.safe_dump(shown, sort_keys=False)

    def check(self) -> None:
        """Raise ComponentError for any error in the component or its config. Makes no request."""
        self.dry_run()

    def cancel(self) -> None:
        """Stop the work gracefully, and make `launch` raise LaunchCancelled. Idempotent, does not block."""
        self.cancelled.set()

    def launch(self) -> LaunchResult:
        """Run the component until it ends, or resume a launch that is recorded in the working directory.

        Raises ComponentError if the component or its configs are invalid, before this method creates an object. Raises
        PermanentFailure if the component fails, or RetryableFailure if it fails in all attempts and a later launch may
        succeed. Raises AlreadyFailed if this launch has failed permanently before, and LaunchCancelled after `cancel`.
        Raises KubeError and docker's errors if the platform can't be reached at all.
        """
        self.check()
        driver, publisher = self.context.metadata_of(self.component.name)
        with self.work:
            record = self.work.to_go_on(self.component.name, self._fingerprint(), resume=self.context.resume)
            if record is None:
                identity = self._identity() if self.context.cache else ""
                execution = driver.begin(self.component, identity, self.context.clock.now())
                if execution.state == "succeeded":
                    self.context.tell(
                        "nothing to do: the outputs of an earlier execution with the same inputs are used"
                    )
                    return self._result(execution, cached=True)
                record = self._new_record(execution)
                self._obey(record, publisher)
            else:
                self._obey(record, publisher)
                if record.state != "succeeded":
                    publisher.publish(recorded_execution(record, None, "running"))
            execution = self._execute(publisher)
            publisher.publish(execution)
            return self._result(execution)

    @property
    def may_run(self) -> bool:
        """Whether a container, pod or TFJob of this launch may exist and run, although `launch` has returned."""
        record = self._record
        return record is not None and record.name != "" and record.state in ("planned", "created")

    # Methods and properties for subclasses.

    @property
    def record(self) -> LaunchRecord:
        """The progress of the launch, as recorded. Use it only after `launch` has read or created the record."""
        assert self._record is not None
        return self._record

    @property
    def tmp_path(self) -> str:
        """The path of the directory, or the URL, to which the container may write output.json.

        For a launch that another machine began, this is the path in the launch record, because the container uses that
        path.
        """
        recorded = self._record.place.get("tmp_path", "") if self._record is not None and self.context.keeper else ""
        return self.context.tmp_path or recorded or str(self.work.tmp)

    @property
    def properties(self) -> dict[str, Any]:
        """The component's parameters, and the parameter `tmp_path`, which the launcher adds."""
        return {**self.component.exec_properties, TMP_PATH: self.tmp_path}

    def _advance(self, state: LaunchState, **changes: Any) -> None:
        """Record the progress of the launch."""
        record = msgspec.structs.replace(self.record, state=state, **changes)
        self.work.save(record)
        self._record = record

    def _repeated(self, attempt: Callable[[], T]) -> T:
        """Return the result of `attempt`. After a RetryableFailure, retry by `context.retry`.

        A PlatformUnavailable is not retried here: the container may still run.
        """

        def worth_it(error: BaseException) -> bool:
            return isinstance(error, RetryableFailure) and not isinstance(error, PlatformUnavailable)

        what = f"component {self.component.name}, execution {self.record.execution_id}"
        return self.context.repeated(attempt, self.context.retry, worth_it, cancelled=self.cancelled, what=what)

    def _judged(self, end: ContainerEnd) -> ExecutionVerdict:
        """Return the outcome of one execution. The outcome depends on the exit of the container and on its output.json.

        With `any_failure` in the retry policy, a permanent failure becomes a retryable failure. Raises
        PlatformUnavailable if output.json can't be read from its object store.
        """
        try:
            output = read_output(self.context.store, self.tmp_path, self.component.outputs, end)
        except ObjectStoreError as error:  # the container is kept, so that the next launch can read its end again
            raise PlatformUnavailable(f"component {self.component.name}: {error}") from None
        verdict = judge(end, output)
        if verdict.state == "failed" and self.context.retry.any_failure:
            return msgspec.structs.replace(verdict, state="retryable")
        return verdict

    def _runs_with(
        self, input_dict: ArtifactDict, output_dict: ArtifactDict, exec_properties: Mapping[str, Any]
    ) -> None:
        """Use these arguments for the executor, and record them if they differ from the driver's decision.

        They differ if a subclass of this launcher has changed them in `_run_executor`.
        Raises PermanentFailure if the component can't run with these arguments.
        """
        what, properties = f"component {self.component.name}", dict(exec_properties)
        if properties.pop(TMP_PATH, self.tmp_path) != self.tmp_path:
            raise PermanentFailure(
                f"{what}: its exec_properties must not change {TMP_PATH}: set another path with LaunchContext.tmp_path"
            )
        inputs, outputs = (
            {name: tuple(artifacts) for name, artifacts in side.items()} for side in (input_dict, output_dict)
        )
        given = Decided(inputs, outputs, properties)
        if given == self.record.decided:
            return
        try:
            msgspec.json.encode(given)
            self.component = msgspec.structs.replace(self._declared, **msgspec.structs.asdict(given))
            self.check()
        except (ComponentError, TypeError, ValueError) as error:
            raise PermanentFailure(f"{what}: the values for its executor are not valid: {error}") from error
        self._record = msgspec.structs.replace(self.record, decided=given)

    def _identity(self) -> str:
        """Return the digest of the program for the cache key, or "" if caching is impossible.

        If the launcher's class is not part of tfoperator, it may change the arguments of the program. So the digest
        then includes a hash of the source file of this class.
        """
        identity, kind = self._cache_identity(), type(self)
        if not identity or kind.__module__.partition(".")[0] == __name__.partition(".")[0]:
            return identity
        digest = source_digest(kind)
        if not digest:
            logger.error("component %s: caching is disabled, because %s has no source file", self.component.name, kind)
        return digest and f"{identity} {digest}"

    def _clear_output(self) -> None:
        """Remove the output.json of an earlier attempt."""
        try:
            self.context.store.clear(self.tmp_path)
        except ObjectStoreError as error:
            kind = PlatformUnavailable if error.passing else PermanentFailure
            raise kind(f"component {self.component.name}: {error}") from None

    def _place(self) -> dict[str, str]:
        """Return where the container will run on the platform, for `LaunchRecord.place`."""
        return {}

    def _cache_identity(self) -> str:
        """Return the digest of the program, such as the image's digest; "" if it is unknown before the program runs."""
        return ""

    # The life of a launch.

    def _new_record(self, execution: Execution) -> LaunchRecord:
        decided = Decided(execution.inputs, execution.outputs, execution.exec_properties)
        return LaunchRecord(
            self.component.name,
            self._fingerprint(),
            execution.id,
            new_run(),
            cache_key=execution.cache_key,
            decided=decided,
            kind=self.kind,
            place={**self._place(), "tmp_path": self.tmp_path},
        )

    def _obey(self, record: LaunchRecord, publisher: Publisher) -> None:
        """Use the inputs, outputs and parameters that the driver has decided, and check them.

        If they are invalid, publish the failure and raise ComponentError.
        """
        self._record = record
        self.component = msgspec.structs.replace(self._declared, **msgspec.structs.asdict(record.decided))
        try:
            self.check()
        except ComponentError as error:
            publisher.publish(recorded_execution(record, self.context.clock.now(), "failed", str(error)))
            raise

    def _execute(self, publisher: Publisher) -> Execution:
        """Run the component, unless it has already succeeded. Record and publish a failure before raising the error."""
        try:
            if self.record.state == "succeeded":
                self.context.tell("nothing to do: this launch has already succeeded")
                self._again_succeeded()
            else:
                output = self._run_executor(
                    self.record.execution_id, self.component.inputs, self.component.outputs, self.properties
                )
                # A subclass may override `_run_executor` and return None. Then the record has the output.
                self._advance("succeeded", output=self.record.output if output is None else output, message="")
        except PermanentFailure as error:
            self._fail("failed", str(error), publisher)
            raise
        except RetryableFailure as error:
            # If the platform's API does not respond, the record still names the container: the next launch resumes it.
            publisher.publish(recorded_execution(self.record, self.context.clock.now(), "retryable", str(error)))
            raise
        except LaunchCancelled as error:
            self._fail("cancelled", str(error), publisher)
            raise
        return recorded_execution(self.record, self.context.clock.now())

    def _again_succeeded(self) -> None:  # noqa: B027 - optional for subclasses
        """Finish a launch whose success is recorded: its launcher may have been killed before the launch had ended."""

    def _fail(self, state: LaunchState, message: str, publisher: Publisher) -> None:
        self._advance(state, message=message)
        publisher.publish(recorded_execution(self.record, self.context.clock.now()))

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
        spec, config = self.component.executor_spec, self.platform_config and self.platform_config.as_json()
        what = spec.path if isinstance(spec, ExecutorClassSpec) else msgspec.to_builtins(spec)
        if self.context.keeper is not None:  # the next launcher may have another working directory
            config = _without(str(self.work.path), config)
        component = self._declared
        inputs, outputs = ({k: list(v) for k, v in d.items()} for d in (component.inputs, component.outputs))
        return fingerprint(self.kind, what, inputs, outputs, dict(component.exec_properties), config)


def _without(path: str, value: Any) -> Any:
    """Return a value of JSON, in which a fixed text replaces a path at the beginning of texts."""
    if isinstance(value, str):
        return value.replace(path, "WORK", 1) if f"{value}/".startswith(f"{path}/") else value
    if isinstance(value, list | tuple):
        return [_without(path, item) for item in value]
    return {name: _without(path, item) for name, item in value.items()} if isinstance(value, dict) else value
