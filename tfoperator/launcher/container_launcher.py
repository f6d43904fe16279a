"""The execution of a container, whatever runs it: attempts, the record of each, the verdict, the clearing up.

The order of the steps is the promise: the old output.json goes, the record says what will be created, then it is
created, then the record says that it was. Killed between any two of them, the next launcher finds what there is under
the recorded name and goes on with it; a new attempt has a new name, so what an older one left is never taken for it.
"""

from __future__ import annotations

import abc
import logging
import re
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from tfoperator.launcher.base import BaseComponentLauncher
from tfoperator.launcher.component import ArtifactDict
from tfoperator.launcher.errors import (
    LaunchCancelled,
    PermanentFailure,
    PlatformUnavailable,
    RetryableFailure,
)
from tfoperator.launcher.executor_specs import ExecutorContainerSpec
from tfoperator.launcher.images import digest_of
from tfoperator.launcher.outcome import ContainerEnd, VerdictKind, judge
from tfoperator.launcher.output import MalformedOutput, Output
from tfoperator.launcher.templates import Bindings, render_container

__all__ = ["LAUNCH_LABEL", "Backend", "ContainerComponentLauncher", "NeverStarted", "object_name"]

logger = logging.getLogger(__name__)

_MAX_NAME = 40
"""Characters of the component's name in the names of objects: with run and attempt, and a TFJob's replica type and
index behind, a label's 63 suffice."""


LAUNCH_LABEL = "tfoperator.launcher/run"
"""On everything that a launch creates: the random piece of its names. Only what has it is ever adopted or deleted."""


class NeverStarted(PermanentFailure):
    """The container did not start in time; it is stopped, so that it does not start later."""


class Backend(Protocol):
    """One platform, connected, for one launch. `wake` from any thread, the rest from one."""

    def create(self, name: str) -> str:
        """Make the container, or find the one of this name that this launch has made; returns its UID.

        Raises PermanentFailure, PlatformUnavailable, LaunchCancelled.
        """
        ...

    def wait(self, name: str, uid: str) -> ContainerEnd:
        """Wait for its end, its log told meanwhile. Raises LaunchCancelled, NeverStarted, PlatformUnavailable."""
        ...

    def stop(self, name: str, uid: str) -> None:
        """Stop and remove it, gracefully, and see that it is gone. `uid` is "" if nobody knows whether it exists."""
        ...

    def remove(self, name: str, uid: str) -> None:
        """Remove what is left of it. It may be gone already."""
        ...

    def wake(self) -> None:
        """Make `wait` look whether the launch is cancelled."""
        ...


class ContainerComponentLauncher(BaseComponentLauncher):
    """Base of the launchers of containers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lock = threading.Lock()  # guards _backend
        self._backend: Backend | None = None

    @abc.abstractmethod
    def _connect(self) -> AbstractContextManager[Backend]:
        """Reach the platform."""

    def cancel(self) -> None:
        """Stop the container gracefully, and make `launch` raise LaunchCancelled. Idempotent, does not block."""
        super().cancel()
        with self._lock:
            backend = self._backend
        if backend is not None:
            backend.wake()

    @property
    def container(self) -> ExecutorContainerSpec:
        """The component's container, every placeholder replaced. Raises TemplateError."""
        spec = self.component.executor_spec
        assert isinstance(spec, ExecutorContainerSpec)
        bindings = Bindings(self.component.inputs, self.component.outputs, self.properties)
        return render_container(self.component.name, spec, bindings)

    def _run_executor(
        self,
        execution_id: int,
        input_dict: ArtifactDict,
        output_dict: ArtifactDict,
        exec_properties: Mapping[str, Any],
    ) -> Output | None:
        del input_dict, output_dict, exec_properties  # they are in the container already
        with self._connected() as backend:
            return self.context.repeated(
                lambda: self._attempt(backend),
                self.context.retry,
                lambda error: isinstance(error, RetryableFailure) and not isinstance(error, PlatformUnavailable),
                cancelled=self.cancelled,
                what=f"component {self.component.name}, execution {execution_id}",
            )

    def _connected(self) -> AbstractContextManager[Backend]:
        return _Registered(self)

    def _attempt(self, backend: Backend) -> Output | None:
        if self.cancelled.is_set():
            raise LaunchCancelled(f"component {self.component.name}: cancelled before it was created")
        self._begin_attempt()
        try:
            if self.record.uid:
                self.context.tell(f"going on with {self.record.name}, which was created before")
            else:
                self._advance("created", uid=backend.create(self.record.name))
            end = backend.wait(self.record.name, self.record.uid)
        except (LaunchCancelled, NeverStarted):
            backend.stop(self.record.name, self.record.uid)
            raise
        return self._conclude(backend, end)

    def _begin_attempt(self) -> None:
        """Plan the next attempt, unless one is planned or under way already."""
        record = self.record
        if record.state == "retryable":
            record = msgspec.structs.replace(record, attempt=record.attempt + 1, name="", uid="")
        if not record.name:
            self.context.store.clear(self.tmp_path)
            self._record = record
            name = object_name(record.component, record.run, record.attempt)
            self.work.forget_logs()
            self._advance("planned", attempt=record.attempt, name=name, uid="", message="")

    def _conclude(self, backend: Backend, end: ContainerEnd) -> Output | None:
        record, said = self.record, self._read_output(end.output)
        verdict = judge(end, said)
        succeeded = verdict.kind is VerdictKind.SUCCEEDED
        said = None if isinstance(said, MalformedOutput) else said
        plain = msgspec.to_builtins(said) if succeeded and said is not None else None
        self._advance(verdict.kind.value, message=verdict.message, image_id=end.image_id, output=plain)
        if self.context.clean_up.removes(succeeded=succeeded):
            backend.remove(record.name, record.uid)
        message = f"component {self.component.name} failed ({record.name}): {verdict.message}"
        if verdict.kind is VerdictKind.PERMANENT:
            raise PermanentFailure(message)
        if verdict.kind is VerdictKind.RETRYABLE:
            raise RetryableFailure(message)
        return said

    def _again_succeeded(self) -> None:
        """Clear up what a launcher that died after the success has left."""
        if self.context.clean_up.removes(succeeded=True) and self.record.uid:
            with self._connected() as backend:
                backend.remove(self.record.name, self.record.uid)

    def _cache_identity(self) -> str:
        """The digest that the image's name pins; subclasses may find out about others."""
        image = self.container.image
        digest = digest_of(image) or self._resolve_digest(image)
        if not digest:
            logger.error(
                "component %s: caching is disabled: image %s has no digest, and a tag may mean another image tomorrow; "
                "write it as name@sha256:...",
                self.component.name,
                image,
            )
        return digest

    def _resolve_digest(self, image: str) -> str:
        """The digest of an image that its name does not pin; "" if that can't be found out."""
        del image
        return ""


class _Registered:
    """A backend that `cancel` can wake for as long as it is in use."""

    def __init__(self, launcher: ContainerComponentLauncher) -> None:
        self._launcher = launcher
        self._manager = launcher._connect()

    def __enter__(self) -> Backend:
        backend = self._manager.__enter__()
        with self._launcher._lock:
            self._launcher._backend = backend
        return backend

    def __exit__(self, *details: Any) -> bool | None:
        with self._launcher._lock:
            self._launcher._backend = None
        return self._manager.__exit__(*details)


def object_name(component: str, run: str, attempt: int) -> str:
    """The name of what an attempt creates: a DNS label, of the component's name as far as that can be one."""
    word = re.sub(r"[^a-z0-9]+", "-", component.lower()).strip("-")[:_MAX_NAME].strip("-")
    if not word[:1].isalpha():
        word = f"c-{word}".strip("-")  # a TFJob's services can't begin with a digit
    return f"{word}-{run}-{attempt}"
