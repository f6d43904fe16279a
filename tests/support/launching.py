"""Launches in the background of a test, which meanwhile plays the kubelet and the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hack import kubelet
from tests.support import manifests
from tests.support.cluster import Cluster, Json, decode, find
from tests.support.eventually import eventually, eventually_holds
from tests.support.threads import InThread
from tfoperator.kube.protocol.resources import EVENTS, PODS
from tfoperator.launcher import (
    BaseComponentLauncher,
    Component,
    ExecutorContainerSpec,
    LaunchContext,
    LaunchResult,
    RetryPolicy,
)
from tfoperator.launcher.core.record import LaunchRecord, WorkDirectory

QUICK = RetryPolicy(attempts=3, initial=0.01, maximum=0.05)


class Killed(BaseException):
    """Ends a launch where it stands, as SIGKILL would; only its working directory remains."""


def step(*command: str, name: str = "step", **more: Any) -> Component:
    """A component whose container runs a command."""
    return Component(name, ExecutorContainerSpec("example.invalid/x:1", command or ("true",)), **more)


@contextmanager
def in_background(folder: Path) -> Iterator[Callable[..., Background]]:
    """Starts launches in threads, by default with the working directory `folder/work`; ends them at last.

    The yielded function takes a function that makes a launcher from a LaunchContext, and options of that context.
    """
    started: list[Background] = []

    def start(make: Callable[[LaunchContext], BaseComponentLauncher], **options: Any) -> Background:
        options = {"work_dir": folder / "work", "retry": QUICK, **options}
        started.append(
            Background(
                lambda launch: make(LaunchContext(log=launch.lines.append, tell=launch.messages.append, **options))
            )
        )
        return started[-1]

    yield start
    for launch in started:
        launch.end()


@contextmanager
def dies_at(state: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, launches die (`Killed`) when they would write down that they have come to a state."""
    save = WorkDirectory.save

    def save_or_die(work: WorkDirectory, record: LaunchRecord) -> None:
        if record.state == state:
            raise Killed
        save(work, record)

    with monkeypatch.context() as patch:
        patch.setattr(WorkDirectory, "save", save_or_die)
        yield


class Background:
    """A launch in a thread. `lines` is the log of the component, `messages` the launcher's own messages."""

    def __init__(self, make: Callable[[Background], BaseComponentLauncher]) -> None:
        self.lines: list[str] = []
        self.messages: list[str] = []
        self.launcher = make(self)
        self._call = InThread(self.launcher.launch)

    @property
    def running(self) -> bool:
        return self._call.running

    def done(self, within: float = 60) -> LaunchResult:
        """Its result; raises what it raised."""
        return self._call.result(within)

    def end(self) -> None:
        """Cancel it if it still runs."""
        self.launcher.cancel()
        self._call.join(60)


class PodPlayer(Cluster):
    """Plays scheduler and kubelet for the launches' pods of one namespace."""

    def the_pod(self, attempt: int = 1, within: float = 60) -> str:
        """The name of the pod of an attempt, once it is there."""

        def there() -> str | None:
            pods = [name for name in self.pods() if name.endswith(f"-{attempt}")]
            assert pods, sorted(self.pods())
            return pods[0]

        return eventually(there, within=within, every=0.02, what=f"the pod of attempt {attempt}") or ""

    def runs(self, name: str) -> None:
        self.set_phase(name, "Running", container="main", ready=False)

    def ends(self, name: str, code: int = 0, message: str = "", reason: str = "") -> None:
        ended = kubelet.terminated(code, message=message, **({"reason": reason} if reason else {}))
        self.status(name, "Failed" if code else "Succeeded", ended)

    def waits(self, name: str, reason: str, message: str) -> None:
        self.set_phase(name, "Pending", container="main", waiting=reason, message=message)

    def status(self, name: str, phase: str, state: Json | None = None, **more: Any) -> None:
        status: Json = {"phase": phase, **more}
        if state is not None:
            container = kubelet.container_status(state, name="main", imageID=manifests.IMAGE_ID, ready=False)
            status["containerStatuses"] = [container]
        self.client.patch(PODS, self.namespace, name, {"status": status}, decode, subresource="status")

    def event(self, name: str, reason: str, message: str) -> None:
        uid = self.pods()[name]["metadata"]["uid"]
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": self.namespace, "name": name, "uid": uid}
        self.client.create(EVENTS, self.namespace, manifests.event(about, reason, message, warning=True), decode)

    def is_gone(self, name: str, within: float = 60) -> None:
        def gone() -> None:
            pod = find(self.client, PODS, self.namespace, name)
            assert pod is None, f"{name} is still there: {pod['metadata'].get('deletionTimestamp')}"

        eventually_holds(gone, within=within, every=0.02)


def text_in(folder: Path, name: str, text: str) -> str:
    """A file in a folder, as a URI."""
    (folder / name).write_text(text)
    return str(folder / name)
