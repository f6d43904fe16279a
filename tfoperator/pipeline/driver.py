"""The driver and publisher of pipelines: they resolve inputs, and record inputs and outputs in the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tfoperator.base.files import local_path
from tfoperator.launcher import Artifact, Component, ComponentError, Execution, PermanentFailure
from tfoperator.launcher.core.component import Json
from tfoperator.launcher.core.metadata import cache_key, fingerprint
from tfoperator.launcher.core.output_document import MalformedOutput, parse_report
from tfoperator.object_store import ObjectStoreError
from tfoperator.pipeline.artifact_data import content, is_there, version
from tfoperator.pipeline.dsl.standard_artifacts import VALUES, value_of
from tfoperator.pipeline.graph import FromOutside, Source, Step
from tfoperator.pipeline.run_folders import leads_out, workspace_of
from tfoperator.pipeline.store.database import is_name
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, RunRecord
from tfoperator.pipeline.values import (
    NEWEST,
    RUN,
    STATUS,
    WORKSPACE,
    LeftOut,
    NotPutOut,
    Value,
    evaluate,
    flat,
    names_fact,
)

logger = logging.getLogger(__name__)

_STATES = {"succeeded": "COMPLETE", "retryable": "FAILED", "cancelled": "CANCELED"}
"""The names in the metadata store for some states of a launch. The name of any other state is the state in upper case.
"""

_UNKNOWN = 2
"""The code `UNKNOWN` of `google.rpc.Code`. Kubeflow Pipelines reports errors of tasks with the codes of this enum."""
_MAX_STATUS = 20_000
"""The maximum number of characters in the message of a status (`_status`). A later step can get the message as an
argument of its program, and Linux limits the length of an argument.
"""


class MetadataDriver:
    """`Driver` and `Publisher` of one step of a run. Thread-safe.

    `skipped` names the steps of the run that were skipped because of a failure.
    """

    def __init__(self, store: MetadataStore, run: RunRecord, step: Step, skipped: Collection[str] = ()) -> None:
        self._store = store
        self._run = run
        self._step = step
        self._skipped = frozenset(skipped)

    def begin(self, component: Component, identity: str, now: datetime) -> Execution:
        """Record an execution, and return it in the form that launchers use, before the program of the step runs.

        If the outputs of an earlier execution are reused, the record has the state `CACHED`, and the returned Execution
        has the state `succeeded`. Otherwise the state is `RUNNING`, or `running` in the Execution.

        `identity` identifies the program of the step, for the cache. The inputs are outputs of earlier steps, or
        artifacts from outside of the pipeline. The URIs of new outputs contain the id of this run. Raises
        ComponentError if an input or parameter can't be determined.
        """
        step = self._step
        before = self._store.executions(self._run.id, step.after | {step.name})
        if (begun := before.get(step.name)) and begun.state == "CACHED":  # decided by a runner that was killed
            return _execution(begun)
        try:
            lookup: Any = partial(
                looked_up, before=before, run=self._run, store=self._store, step=step.name, skipped=self._skipped
            )
            input_records = {name: _resolved(source, lookup) for name, source in step.inputs.items()}
            values = {name: evaluate(value, lookup) for name, value in step.exec_properties.items()}
            changed, reported_properties = _reported(evaluate(step.report, lookup))
            values |= changed
            foreign = [record.properties for records in input_records.values() for record in records if not record.id]
            _check_names(values, *reported_properties.values(), *step.properties.values(), *foreign)
        except (ComponentError, LeftOut) as error:
            raise ComponentError(f"component {step.name}: {error}") from None
        inputs = {
            name: tuple([record if record.id else self._store.external_artifact(record, now) for record in records])
            for name, records in input_records.items()
        }
        planned = {name: artifact.uri for name, (artifact,) in component.outputs.items()}
        outputs = {
            name: (
                ArtifactRecord(
                    0,
                    step.outputs[name],
                    uri,
                    "PENDING",
                    {**step.properties.get(name, {}), **reported_properties.get(name, {})},
                ),
            )
            for name, uri in planned.items()
        }
        resolved = msgspec.structs.replace(component, inputs=_artifacts(inputs), exec_properties=values)
        key = self._key(step, resolved, identity)
        new = ExecutionRecord(
            0, self._run.id, step.name, step.kind, "RUNNING", "", key, "", values, inputs=inputs, outputs=outputs
        )
        usable = self._store.usable(self._run.pipeline, step.name, key) if key else ()
        if earlier := next((candidate for candidate in usable if _still_there(candidate)), None):
            new = msgspec.structs.replace(earlier, kind=step.kind, state="CACHED")
        try:
            # The component itself makes the output, a file or a folder. Its parent folder exists by then.
            for path in filter(None, map(local_path, () if earlier else planned.values())):
                path.parent.mkdir(parents=True, exist_ok=True)
            if any(names_fact(value, WORKSPACE) for value in step.exec_properties.values()):
                workspace = workspace_of(self._run)
                if leads_out(self._run.root, workspace):
                    raise ComponentError(
                        f"the workspace {workspace} is outside of pipeline_root, because of a symbolic link"
                    )
                Path(workspace).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            where = f"pipeline_root: {error.filename}: {error.strerror}"
            raise ComponentError(f"{where}; the outputs can't be written there") from error
        return _execution(self._store.begin_execution(self._run, new, now))

    def publish(self, execution: Execution) -> None:
        """Record the outcome of an execution in the metadata store.

        If an output is not a valid value of its type, record the execution as failed, and raise PermanentFailure.
        """
        if problem := publish(self._store, execution, self._run, self._step.outputs):
            raise PermanentFailure(problem)

    def fail(self, message: str, now: datetime) -> None:
        """Record that the step has failed, unless the run has an execution of the step.

        For example, a step fails before it begins if its input is missing. Without the record, a step that gets the
        final status of this step, and commands that show the run, would not notice the failure. Raises OwnershipLost
        and StoreError.
        """
        step = self._step
        if step.name not in self._store.executions(self._run.id, [step.name]):
            failed = ExecutionRecord(0, self._run.id, step.name, step.kind, "FAILED", message)
            self._store.begin_execution(self._run, failed, now)

    def _key(self, step: Step, resolved: Component, identity: str) -> str:
        """Return the cache key: a hash of the program (`identity`), the inputs, parameters and outputs of a step.

        The hash includes the root of the outputs, because a container sees only the root of its own run. For files and
        objects from outside of the pipeline, the hash includes their sizes and times (`version`). The key is "" if
        caching is impossible.
        """
        if not identity:
            return ""
        try:
            names = [name for name, source in step.inputs.items() if isinstance(source, FromOutside)]
            versions = [version(artifact.uri) for name in names for artifact in resolved.inputs[name]]
        except ObjectStoreError as error:
            logger.warning("step %s: caching is disabled, because an input can't be read: %s", step.name, error)
            return ""
        outputs = [self._run.root, dict(step.outputs), dict(step.properties)]
        return fingerprint(step.name, cache_key(resolved, identity), versions, outputs)


def looked_up(
    value: Value,
    before: Mapping[str, ExecutionRecord],
    *,
    run: RunRecord,
    store: MetadataStore,
    step: str = "",
    content: bool = True,
    skipped: Collection[str] = (),
) -> Any:
    """Look up the result of a `Value`, for `evaluate`.

    The operation of the value decides which result is returned:

    - `OUTPUT`: the output of a step. With `content`, this is the value of the output. Without `content`, it is the
      artifacts.
    - `STATUS`: how steps ended. `skipped` names the steps that were skipped because of a failure.
    - `RUN`: a fact of `run`, such as its id. Some facts depend on `step`.
    - `NEWEST`: the newest artifact that an earlier run has made.

    `before` has the executions of the steps. Raises NotPutOut if the step with the output has not succeeded, and
    ComponentError if the step has no output of this name.
    """
    if value.op == RUN:
        return _fact(value.args[0], run, step)
    if value.op == NEWEST:
        kind, *fields = value.args
        wanted = dict(zip(fields[::2], fields[1::2], strict=True))
        if not all(isinstance(expected, str | int | float) for expected in wanted.values()):
            return ()  # the value of a field is None: the filter uses a property that an artifact does not have
        return tuple(store.newest_artifacts(run, kind, wanted))
    if value.op == STATUS:
        return _status(value.args, before, skipped)
    maker, output = value.args
    made = before.get(maker)
    if made is None or made.state not in ("COMPLETE", "CACHED"):
        raise NotPutOut(f"this step reads the output of step {maker}, which has not succeeded")
    live = tuple([record for record in made.outputs.get(output, ()) if record.state == "LIVE"])
    if not live or (content and "value" not in live[0].properties):
        what = "no value as its" if content else "no"
        raise ComponentError(f"step {maker} has succeeded, but has written {what} output {output}")
    return live[0].properties["value"] if content else live


def _check_names(*sides: Mapping[str, Any]) -> None:
    """Raise ComponentError if the name of a parameter or a property is too long for the records, or contains NUL."""
    if wrong := [name for side in sides for name in side if not is_name(name)]:
        raise ComponentError(
            f"{wrong[0][:40]!r} is not a valid name of a parameter or property: it may have at most 255 characters "
            "of Unicode, and no NUL"
        )


def _reported(report: Any) -> tuple[Json, dict[str, Json]]:
    """Return the content of a report: the parameters, and the properties of each output of the step.

    A report is the JSON document of a program that ran before the step (Kubeflow Pipelines' `preCacheCheck`). For a
    step without such a program, `report` is None. Raises ComponentError if the document is malformed.
    """
    if report is None:
        return {}, {}
    try:
        return parse_report(report)
    except MalformedOutput as error:
        raise ComponentError(
            f"the program that runs before this step has written a malformed document: {error}"
        ) from None


def _status(steps: Sequence[str], ended: Mapping[str, ExecutionRecord], skipped: Collection[str]) -> Any:
    """Return how steps ended, as a cluster of Kubeflow Pipelines reports it: with the state names of ML Metadata.

    An execution without an outcome counts as a failure, because its launch has ended with an unexpected error.
    """
    executions = [execution for name in steps if (execution := ended.get(name))]
    failures = [
        f"{execution.step}: {execution.message}"
        for execution in executions
        if execution.state not in ("COMPLETE", "CACHED")
    ]
    failures += [f"{name}: was skipped, because an earlier step failed" for name in steps if name in skipped]
    if not failures:
        return {"state": "COMPLETE", "error": {}}
    return {"state": "FAILED", "error": {"code": _UNKNOWN, "message": "; ".join(failures)[:_MAX_STATUS]}}


def _fact(name: str, run: RunRecord, step: str) -> str:
    """Return a fact of a run by its name: `id`, `root`, `name`, `began`, `task` or `workspace`."""
    if name == WORKSPACE:
        return workspace_of(run)
    facts = {
        "id": run.id,
        "root": run.root,
        "name": f"{run.pipeline}-{run.id}",
        "began": run.began.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "task": f"{run.id}.{step}",
    }
    return facts[name]


def _resolved(source: Source, lookup: Callable[..., Any]) -> tuple[ArtifactRecord, ...]:
    """Return the artifacts of an input. Artifacts from outside of the pipeline have the id 0."""
    if isinstance(source, FromOutside):
        artifacts = source.artifacts
        if source.uri is not None:
            uri, properties = str(evaluate(source.uri, lookup)), evaluate(source.properties, lookup)
            artifacts = (Artifact(uri, artifacts[0].properties if properties is None else properties),)
        return tuple(
            [ArtifactRecord(0, source.type_name, artifact.uri, "LIVE", artifact.properties) for artifact in artifacts]
        )
    return tuple(flat(evaluate(source, partial(lookup, content=False))))


def publish(store: MetadataStore, execution: Execution, run: RunRecord, types: Mapping[str, str]) -> str:
    """Record the outcome of an execution. Return "", or a message if its outputs are not valid.

    If the outputs are not valid, the execution is recorded as failed. Outputs are not valid if one of them is not a
    valid value of its type (`types`), or if the name of a property is too long or contains NUL. The content of a value
    is read only from the URI that was planned for the output. A container can report any other path of this machine as
    its output, and must not get the content of that file into the metadata store.
    """
    outputs, problem = {}, ""
    try:
        artifacts_made = [artifact for artifacts in execution.outputs.values() for artifact in artifacts]
        _check_names(execution.exec_properties, *[artifact.properties for artifact in artifacts_made])
    except ComponentError as error:
        problem = f"component {execution.component}: {error}"
        execution = msgspec.structs.replace(execution, exec_properties={}, outputs={})
    for name, artifacts in execution.outputs.items():
        valued = []
        for artifact in artifacts:
            made, properties = is_there(artifact.uri, unknown=True), artifact.properties
            if (kind := types.get(name)) in VALUES:
                own = made and artifact.uri == f"{run.root}/{execution.component}/{name}/{run.id}"
                try:
                    raw = properties["value"] if "value" in properties else content(artifact.uri) if own else None
                    properties = properties if raw is None else {**properties, "value": value_of(kind, raw)}
                except (OSError, ValueError) as error:
                    problem = f"component {execution.component}: its output {name} is not a valid {kind}: {error}"
            valued.append(ArtifactRecord(0, "", artifact.uri, "LIVE", properties, made=made))
        outputs[name] = tuple(valued)
    if problem:
        execution = msgspec.structs.replace(execution, state="failed", message=problem)
    state: Any = _STATES.get(execution.state, execution.state.upper())
    image, values = execution.image_id, execution.exec_properties
    outcome = ExecutionRecord(
        execution.id, run.id, execution.component, "", state, execution.message, "", image, values, outputs=outputs
    )
    store.publish(run, outcome, execution.ended or datetime.now(UTC))
    return problem


def _artifacts(side: Mapping[str, Iterable[ArtifactRecord]]) -> dict[str, tuple[Artifact, ...]]:
    return {
        name: tuple([Artifact(record.uri, dict(record.properties)) for record in records])
        for name, records in side.items()
    }


def _execution(record: ExecutionRecord) -> Execution:
    """Return a record of the store in the form that launchers use.

    If the state of the record is `CACHED`, the result has the state `succeeded`, and only outputs in the state `LIVE`.
    Otherwise the result has the state `running`.
    """
    cached, outputs = record.state == "CACHED", dict[str, list[ArtifactRecord]]()
    for name, records in record.outputs.items():
        outputs[name] = [artifact for artifact in records if artifact.state == "LIVE" or not cached]
    return Execution(
        record.id,
        record.step,
        "succeeded" if cached else "running",
        cache_key=record.cache_key,
        image_id=record.image_id,
        inputs=_artifacts(record.inputs),
        outputs=_artifacts(outputs),
        exec_properties=record.exec_properties,
        began=record.began,
    )


def _still_there(earlier: ExecutionRecord) -> bool:
    """Return whether all outputs of an earlier execution can be used again.

    Each output must have the state `LIVE`. If the data of the output existed when the execution ended (`made`), the
    data must still exist. Outputs in the state `ABANDONED` do not count.
    """
    counted = [record for records in earlier.outputs.values() for record in records if record.state != "ABANDONED"]
    return all(
        record.state == "LIVE" and (not record.made or is_there(record.uri, unknown=False)) for record in counted
    )
