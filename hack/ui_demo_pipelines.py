"""Pipeline runs for the page's pictures: some that are over, and one that goes on, as their runners record them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.launcher.core.record import LaunchRecord, WorkDirectory
from tfoperator.pipeline import Home, MetadataStore
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, ExecutionState, RunRecord

_NOW = datetime.now(UTC)
_ROOT = "/data/pipelines/digits"
_STEPS: dict[str, tuple[str, ...]] = {
    "Data": (),
    "Train.single": ("Data",),
    "Train.distributed": ("Data",),
    "Evaluate": ("Data", "Train.single", "Train.distributed"),
    "Push": ("Evaluate",),
}
_OUTPUTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Data": ("samples", "Examples", {"rows": 1797}),
    "Train.single": ("model", "Model", {"accuracy": 0.951}),
    "Train.distributed": ("model", "Model", {"accuracy": 0.968}),
    "Evaluate": ("report", "ModelEvaluation", {"best": "distributed", "accuracy": 0.968}),
    "Push": ("pushed", "PushedModel", {}),
}
_SECONDS = {"Data": 41, "Train.single": 380, "Train.distributed": 655, "Evaluate": 38, "Push": 6}


def _ago(seconds: float) -> datetime:
    return _NOW - timedelta(seconds=seconds)


class _Play:
    """One run, step by step."""

    def __init__(self, home: Home, store: MetadataStore, pipeline: str, began: float, **parameters: Any) -> None:
        self.home, self.store, self.began = home, store, began
        run_id = f"{_ago(began):%Y%m%d-%H%M%S}-{int(began) & 0xFFFF:04x}"
        source = f"/home/me/{pipeline}.py"
        self.run = RunRecord(run_id, pipeline, "running", _ROOT, "f", _ago(began), None, "", _STEPS, source, parameters)
        store.put_run(self.run)
        self._clock = began

    def step(self, name: str, state: ExecutionState | None = "COMPLETE", **more: Any) -> None:
        """A step begins now, and ends so; without a state it goes on."""
        output, kind, properties = _OUTPUTS[name]
        known = self.store.executions(self.run.id)
        inputs = {
            before: tuple([record for records in known[before].outputs.values() for record in records])
            for before in _STEPS[name]
        }
        kind_of_step = name.partition(".")[0]
        planned = ArtifactRecord(0, kind, f"{_ROOT}/{name}/{output}/{self.run.id}", "PENDING")
        parameters, now = more.get("parameters", {}), _ago(self._clock)
        new = ExecutionRecord(0, self.run.id, name, kind_of_step, "RUNNING", "", name, "", parameters, inputs)
        begun = self.store.begin_execution(self.run, msgspec.structs.replace(new, outputs={output: (planned,)}), now)
        container = more.get("container", f"{name.lower()}-3f2a")
        record = LaunchRecord(name, "f", begun.id, "3f2a", more.get("attempts", 1), container, more.get("uid", ""))
        with WorkDirectory(self.home.step_folder(self.run.id, name)) as work:
            work.save(msgspec.structs.replace(record, state="created", kind=more.get("kind", "kubernetes")))
        log = self.home.logs.append_to(self.run.id, name)
        for line in more.get("log", ()):
            log(line)
        if state is None:
            return
        self._clock -= _SECONDS[name]
        made = {output: (msgspec.structs.replace(planned, properties=properties),)} if state == "COMPLETE" else {}
        message = more.get("message", "")
        ended = msgspec.structs.replace(begun, state=state, message=message, image_id="sha256:9c1f04", outputs=made)
        self.store.publish(self.run, ended, _ago(self._clock))

    def again(self, name: str, pipeline: str) -> None:
        """A step is used again."""
        earlier = self.store.usable(pipeline, name, name)[0]
        self.store.begin_execution(self.run, msgspec.structs.replace(earlier, state="CACHED"), _ago(self._clock))

    def end(self, state: Any, message: str = "") -> None:
        """The run is over."""
        ended = msgspec.structs.replace(self.run, state=state, message=message, ended=_ago(self._clock))
        self.store.put_run(ended)


@contextmanager
def played(folder: Path, job_uid: str) -> Iterator[Home]:
    """A home with runs, the newest of which has a runner as long as the block; its TFJob has this UID."""
    home = Home(folder)
    with home.store() as store:
        first = _Play(home, store, "digits", 93_000, alpha=0.001)
        for name in _STEPS:
            first.step(name)
        first.end("succeeded")
        other = _Play(home, store, "churn-nightly", 41_000)
        other.step("Data")
        other.step("Train.single", "FAILED", message="exit code 1: ValueError: column 'tenure' is missing")
        other.end("failed", "Train.single: exit code 1: ValueError: column 'tenure' is missing")
        second = _Play(home, store, "digits", 9_400, alpha=0.001)
        for name in _STEPS:
            second.again(name, "digits")
        second.end("succeeded")
        now = _Play(home, store, "digits", 190, alpha=0.01)
        now.again("Data", "digits")
        now.again("Train.single", "digits")
        log = [
            f"[worker-{step % 2}] step {step * 50:>5}  loss={2.2 / (1 + step / 9) + 0.16:.4f}" for step in range(1, 60)
        ]
        now.step(
            "Train.distributed", None, kind="tfjob", attempts=2, uid=job_uid, container="train-distributed-3f2a",
            parameters={"alpha": 0.01}, log=log,
        )  # fmt: skip
        with home.lock(store, now.run.id):
            yield home
