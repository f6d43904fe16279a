"""The driver and publisher of pipelines: resolve inputs, allocate outputs and record both in the metadata store."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import msgspec

from tfoperator.base.object_store import ObjectStoreError
from tfoperator.launcher import Artifact, Component, ComponentError, Execution
from tfoperator.launcher.core import cache_key, fingerprint
from tfoperator.pipeline.graph import FromOutside, Graph, Source, Step
from tfoperator.pipeline.local_paths import exists, local_path, version
from tfoperator.pipeline.store import ArtifactRecord, ExecutionRecord, MetadataStore, RunRecord, StepOutcome

logger = logging.getLogger(__name__)

_STATES = {
    "running": "RUNNING",
    "succeeded": "COMPLETE",
    "failed": "FAILED",
    "retryable": "FAILED",
    "cancelled": "CANCELED",
}


class MetadataDriver:
    """`Driver` and `Publisher` of one run. Thread-safe."""

    def __init__(self, store: MetadataStore, graph: Graph, run: RunRecord) -> None:
        self._store = store
        self._graph = graph
        self._run = run

    def begin(self, component: Component, identity: str, now: datetime) -> Execution:
        """See `Driver`: inputs are the outputs of earlier steps, outputs get URIs of this run."""
        step = self._graph.step(component.name)
        before = self._store.executions(self._run.id)
        known = before.get(step.name)
        if known is not None and known.state == "CACHED":  # decided before a crash
            return _execution(known, "succeeded")
        inputs = {name: self._resolved(step, source, before) for name, source in step.inputs.items()}
        numbers = {
            name: [
                one.id if isinstance(one, ArtifactRecord) else self._store.external_artifact(type_name, one, now)
                for one in found
            ]
            for name, (type_name, found) in inputs.items()
        }
        artifacts = {name: _artifacts(found) for name, (_, found) in inputs.items()}
        outputs = {
            name: (kind, self._graph.output_uri(step.name, name, self._run.id)) for name, kind in step.outputs.items()
        }
        resolved = msgspec.structs.replace(component, inputs=artifacts)
        key = self._key(step, resolved, identity)
        if key:
            for earlier in self._store.usable(self._run.pipeline, step.name, key):
                if _still_there(earlier):
                    again = self._store.use_again(self._run, step.name, step.kind, earlier, now)
                    return _execution(again, "succeeded")
        self._make_folders([uri for _, uri in outputs.values()])
        begun = self._store.begin_execution(
            self._run, step.name, step.kind, numbers, outputs, component.exec_properties, key, now
        )
        return _execution(begun, "running")

    def publish(self, execution: Execution) -> None:
        """See `Publisher`."""
        publish(self._store, execution, self._run)

    def _resolved(
        self, step: Step, source: Source, before: dict[str, ExecutionRecord]
    ) -> tuple[str, tuple[ArtifactRecord | Artifact, ...]]:
        if isinstance(source, FromOutside):
            return source.type_name, source.artifacts
        made = before.get(source.step)
        if made is None or made.state not in ("COMPLETE", "CACHED"):
            raise ComponentError(f"component {step.name}: {source.step}, which it reads from, has not succeeded")
        live = tuple([one for one in made.outputs.get(source.output, ()) if one.state == "LIVE"])
        if not live:
            raise ComponentError(
                f"component {step.name}: {source.step} has succeeded, but put out nothing as {source.output}"
            )
        return live[0].type, live

    def _key(self, step: Step, resolved: Component, identity: str) -> str:
        """Return the cache key of executor and inputs. Files and objects made by no step count by version."""
        if not identity:
            return ""
        outside = [source for source in step.inputs.values() if isinstance(source, FromOutside)]
        try:
            versions = [version(one.uri) for source in outside for one in source.artifacts]
        except ObjectStoreError as error:
            logger.warning("step %s: caching is disabled: an input can't be looked at: %s", step.name, error)
            return ""
        return fingerprint(step.name, cache_key(resolved, identity), versions)

    def _make_folders(self, uris: list[str]) -> None:
        """Make the folders around outputs; the component itself makes the output, a file or a folder."""
        for uri in uris:
            path = local_path(uri)
            if path is not None:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                except OSError as error:
                    raise ComponentError(
                        f"pipeline_root: {error.filename}: {error.strerror}; outputs can't go there"
                    ) from error


def publish(store: MetadataStore, execution: Execution, run: RunRecord) -> None:
    """Record the outcome of an execution."""
    outputs = {
        name: tuple([(one.uri, one.properties, _is_made(one.uri)) for one in artifacts])
        for name, artifacts in execution.outputs.items()
    }
    state: Any = _STATES[execution.state]
    at = execution.ended or datetime.now(UTC)
    store.publish(
        execution.id,
        StepOutcome(state, execution.message, execution.image_id, execution.exec_properties, outputs, at),
        run,
    )


def _artifacts(found: tuple[ArtifactRecord | Artifact, ...]) -> tuple[Artifact, ...]:
    return tuple([Artifact(one.uri, dict(one.properties)) for one in found])


def _execution(record: ExecutionRecord, state: str) -> Execution:
    sides = [{name: _artifacts(records) for name, records in side.items()} for side in (record.inputs, record.outputs)]
    if state == "succeeded":
        sides[1] = {
            name: _artifacts(tuple([one for one in records if one.state == "LIVE"]))
            for name, records in record.outputs.items()
        }
    return Execution(
        record.id,
        record.step,
        state,
        cache_key=record.cache_key,
        image_id=record.image_id,
        inputs=sides[0],
        outputs=sides[1],
        exec_properties=record.exec_properties,
        began=record.began,
    )


def _is_made(uri: str) -> bool:
    try:
        return exists(uri)
    except ObjectStoreError as error:
        logger.warning("%s can't be looked at; it has to be before it is used again: %s", uri, error)
        return True


def _still_there(earlier: ExecutionRecord) -> bool:
    """Return whether its outputs are usable: not removed, and still present if they were when it ended."""
    known = [one for records in earlier.outputs.values() for one in records if one.state != "ABANDONED"]
    try:
        return all(one.state == "LIVE" and (not one.made or exists(one.uri)) for one in known)
    except ObjectStoreError as error:
        logger.warning("the outputs of execution %d are not used, for they can't be looked at: %s", earlier.id, error)
        return False
