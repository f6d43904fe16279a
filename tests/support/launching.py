"""Launches in the background of a test, which meanwhile plays the kubelet, the user, or bad weather."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.cluster import BINDINGS, Json, decode
from tests.support.eventually import eventually
from tfoperator.kube.client import Client
from tfoperator.kube.errors import NotFoundError
from tfoperator.kube.resources import EVENTS, PODS
from tfoperator.launcher import BaseComponentLauncher, Component, ExecutorContainerSpec, LaunchResult, RetryPolicy

QUICK = RetryPolicy(attempts=3, initial=0.01, maximum=0.05)


class Killed(BaseException):
    """Ends a launch where it stands, as SIGKILL would; only its working directory remains."""


def step(*command: str, name: str = "step", **more: Any) -> Component:
    """A component whose container runs a command."""
    return Component(name, ExecutorContainerSpec("example.invalid/x:1", command or ("true",)), **more)


class Background:
    """A launch in a thread. `lines` is what the component has logged, `told` what the launcher has said."""

    def __init__(self, make: Callable[[Background], BaseComponentLauncher]) -> None:
        self.lines: list[str] = []
        self.told: list[str] = []
        self.launcher = make(self)
        self.result: LaunchResult | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="launch")
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self.launcher.launch()
        except BaseException as error:  # noqa: BLE001 - `done` raises it
            self.error = error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def done(self, within: float = 30) -> LaunchResult:
        """Its result; raises what it raised."""
        self._thread.join(within)
        assert not self._thread.is_alive(), f"still launching; told: {self.told}"
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    def end(self) -> None:
        """Cancel it if it still runs."""
        self.launcher.cancel()
        self._thread.join(30)


class PodPlayer:
    """Plays scheduler and kubelet for the launches' pods of one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    def pods(self) -> dict[str, Json]:
        return {p["metadata"]["name"]: p for p in self.client.list(PODS, self.namespace, decode).items}

    def the_pod(self, attempt: int = 1, within: float = 15) -> str:
        """The name of the pod of an attempt, once it is there."""

        def there() -> str | None:
            found = [name for name in self.pods() if name.endswith(f"-{attempt}")]
            assert found, sorted(self.pods())
            return found[0]

        return eventually(there, within=within, every=0.02, what=f"the pod of attempt {attempt}") or ""

    def bind(self, name: str, node: str = "node-of-launches") -> None:
        self.client.create(
            BINDINGS, self.namespace, {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}, decode
        )

    def runs(self, name: str) -> None:
        self.status(name, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})

    def ends(self, name: str, code: int = 0, message: str = "", reason: str = "") -> None:
        why = reason or ("Completed" if code == 0 else "Error")
        terminated = {"exitCode": code, "reason": why, **({"message": message} if message else {})}
        self.status(name, "Failed" if code else "Succeeded", {"terminated": terminated})

    def waits(self, name: str, reason: str, message: str) -> None:
        self.status(name, "Pending", {"waiting": {"reason": reason, "message": message}})

    def status(self, name: str, phase: str, state: Json | None = None, **more: Any) -> None:
        container: Json = {"name": "main", "image": "x", "imageID": "x@sha256:" + "a" * 64, "ready": False}
        status: Json = {"phase": phase, **more}
        if state is not None:
            status["containerStatuses"] = [{**container, "restartCount": 0, "state": state}]
        self.client.patch(PODS, self.namespace, name, {"status": status}, decode, subresource="status")

    def event(self, name: str, reason: str, message: str) -> None:
        pod = self.pods()[name]
        regarding = {"kind": "Pod", "namespace": self.namespace, "name": name, "uid": pod["metadata"]["uid"]}
        body = {
            "metadata": {"generateName": "e-"},
            "involvedObject": {"apiVersion": "v1", **regarding},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": "2026-01-01T00:00:00Z",
        }
        self.client.create(EVENTS, self.namespace, body, decode)

    def delete(self, name: str) -> None:
        self.client.delete(PODS, self.namespace, name, grace_period_seconds=0)

    def is_gone(self, name: str, within: float = 10) -> None:
        def gone() -> bool:
            try:
                pod = self.client.get(PODS, self.namespace, name, decode)
            except NotFoundError:
                return True
            raise AssertionError(f"{name} is still there: {pod['metadata'].get('deletionTimestamp')}")

        eventually(gone, within=within, every=0.02)


def text_in(folder: Path, name: str, text: str) -> str:
    """A file in a folder, as a URI."""
    (folder / name).write_text(text)
    return str(folder / name)
