"""Runs a container on any platform: attempts, their records, the result, and the removal of objects.

Each attempt has four steps. The launcher removes the old output.json (a program's own report of its outcome), records
the name of the new object (a Docker container, a pod or a TFJob), creates the object, and records that the object
exists. If the launcher is killed between two steps, the next launcher looks for an object with the recorded name, and
continues with this object. Each attempt has a new name, so an object of an older attempt is never used.
"""

from __future__ import annotations

import abc
import logging
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from tfoperator.base.urls import shown_url
from tfoperator.launcher.container.backend import Backend, Launch, Mailbox, NeverStarted, object_name
from tfoperator.launcher.container.staging import clear, download, staged_places
from tfoperator.launcher.container.templates import Bindings, render_container
from tfoperator.launcher.core.component import ArtifactDict, ExecutorContainerSpec
from tfoperator.launcher.core.component_launcher import BaseComponentLauncher
from tfoperator.launcher.core.errors import ComponentError, LaunchCancelled
from tfoperator.launcher.core.output import ContainerEnd
from tfoperator.launcher.core.output_document import Output

logger = logging.getLogger(__name__)

_DIGEST = re.compile(r"(?:^|.*@)(sha256:[0-9a-f]{64})$")


class ContainerComponentLauncher(BaseComponentLauncher):
    """The base class of the launchers that run a component as a Docker container, process, pod or TFJob."""

    expanded_by_kubernetes = False
    """Whether the platform replaces `$(NAME)` in command and arguments."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._mailbox = Mailbox(self.context.clock)

    @abc.abstractmethod
    def _connect(self, launch: Launch) -> AbstractContextManager[Backend]:
        """Return a context manager that connects to the platform and yields a backend for the launch."""

    def cancel(self) -> None:
        """Stop the container gracefully, and make `launch` raise LaunchCancelled. Idempotent, does not block."""
        super().cancel()
        self._mailbox.put(None)

    @property
    def sees_files(self) -> bool:
        """Whether the container's program and the launcher see the same files at `tmp_path`."""
        return True

    @property
    def _places(self) -> dict[str, str]:
        """The paths at which the program finds artifacts of an object store, by the URLs of the artifacts.

        The result is empty unless the program needs files (`knows_files_only`).
        """
        spec, context = self.component.executor_spec, self.context
        if not isinstance(spec, ExecutorContainerSpec) or not spec.knows_files_only or not self.sees_files:
            return {}
        return staged_places(self.component, self.tmp_path, context.objects)

    def check(self) -> None:
        """Run the checks of the base class.

        Also raise ComponentError if the outputs go to an object store, but the program writes files that this launcher
        can't see and upload.
        """
        super().check()
        spec, url = self.component.executor_spec, self.context.objects
        outputs = [artifact.uri for artifacts in self.component.outputs.values() for artifact in artifacts]
        files = isinstance(spec, ExecutorContainerSpec) and spec.knows_files_only and not self.sees_files
        if url and files and any(uri.startswith(f"{url}/") for uri in outputs):
            raise ComponentError(
                f"component {self.component.name}: its outputs go to {shown_url(url)}, so its program writes local "
                "files, which this launcher can't read: run the component as a process or on Docker of this machine, "
                "or give a --tmp-path on a volume that both this launcher and the component's pod can use, or a "
                "pipeline_root that is a directory"
            )

    @property
    def container(self) -> ExecutorContainerSpec:
        """The component's container with values in place of all placeholders.

        Raises TemplateError if a placeholder is invalid.
        """
        spec = self.component.executor_spec
        assert isinstance(spec, ExecutorContainerSpec)
        bindings = Bindings(self.component.inputs, self.component.outputs, self.properties, self._places)
        return render_container(self.component.name, spec, bindings, for_kubernetes=self.expanded_by_kubernetes)

    def _run_executor(
        self,
        execution_id: int,
        input_dict: ArtifactDict,
        output_dict: ArtifactDict,
        exec_properties: Mapping[str, Any],
    ) -> Output | None:
        del execution_id
        self._runs_with(input_dict, output_dict, exec_properties)
        with self._connected() as backend:
            return self._repeated(lambda: self._attempt(backend))

    def _connected(self) -> AbstractContextManager[Backend]:
        return self._connect(
            Launch(self.component.name, self.record.run, self.context, self.cancelled, self.work, self._mailbox)
        )

    def _attempt(self, backend: Backend) -> Output | None:
        if self.cancelled.is_set():
            raise LaunchCancelled(f"component {self.component.name}: cancelled before the next attempt began")
        self._begin_attempt()
        try:
            if self.record.uid:
                self.context.tell(f"continuing with {self.record.name}, which an earlier command has created")
            else:
                self.context.still_ours()
                self._advance("created", uid=backend.create(self.record.name))
            end = backend.wait(self.record.name, self.record.uid)
        except (LaunchCancelled, NeverStarted):
            self.context.still_ours()
            backend.stop(self.record.name, self.record.uid)
            raise
        return self._conclude(backend, end)

    def _begin_attempt(self) -> None:
        """Plan the next attempt, unless an attempt is already planned or running.

        Remove the output.json of the previous attempt, download the inputs if the program needs files, and record the
        number of the attempt and the name of its container.
        """
        record = self.record
        if record.state == "retryable":
            record = msgspec.structs.replace(record, attempt=record.attempt + 1, name="", uid="")
        if not record.name:
            self._clear_output()
            if self._places:
                download(self.component, self.tmp_path, self.context.objects)
            self._record = record
            name = object_name(record.component, record.run, record.attempt)
            self.work.forget_logs()
            self._advance("planned", attempt=record.attempt, name=name, uid="", message="")

    def _conclude(self, backend: Backend, end: ContainerEnd) -> Output | None:
        record, verdict = self.record, self._judged(end)
        self._advance(**msgspec.structs.asdict(verdict))
        if self._places:
            clear(self.tmp_path)
        if self.context.clean_up.removes(succeeded=verdict.state == "succeeded"):
            backend.remove(record.name, record.uid)
        verdict.raise_failure(f"component {self.component.name} failed ({record.name})")
        return verdict.output

    def _again_succeeded(self) -> None:
        """Remove the container, unless the `clean_up` policy keeps it.

        The launcher that recorded the success may have been killed before it could do this.
        """
        if self.context.clean_up.removes(succeeded=True) and self.record.uid:
            with self._connected() as backend:
                backend.remove(self.record.name, self.record.uid)

    def _cache_identity(self) -> str:
        """Return the digest of the container's image, or "" (and log an error) if the digest is unknown."""
        image = self.container.image
        digest = pinned_digest(image) or self._resolve_digest(image)
        if not digest:
            logger.error(
                "component %s: caching is disabled, because image %s has no digest, and a tag may mean another image "
                "later: write the image as name@sha256:...",
                self.component.name,
                image,
            )
        return digest

    def _resolve_digest(self, image: str) -> str:
        """Return the digest of an image that is named by a tag, or "" if the digest is unknown.

        Subclasses override this method if their platform can look up digests.
        """
        del image
        return ""


def pinned_digest(image: str) -> str:
    """Return the digest in an image reference (`name@sha256:...`).

    Return "" for a tag, because its image may change.
    """
    match = _DIGEST.match(image)
    return match[1] if match else ""
