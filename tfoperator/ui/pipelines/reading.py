"""Reads of a home for one page: a run with its steps, an artifact with its lineage. Blocks for milliseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import msgspec

from tfoperator.launcher.core.record import LaunchRecord
from tfoperator.pipeline import Home, Lineage, MetadataStore, StoreError, lineage_of
from tfoperator.pipeline.home import names_files
from tfoperator.pipeline.store.records import ExecutionRecord, Maker, RunRecord
from tfoperator.ui.pipelines.step_log import StepLogTail
from tfoperator.ui.problems import CannotRead, NotThere


class PipelineRunFacts(msgspec.Struct, frozen=True):
    """A run: by step its last execution and its launch, and by artifact its producer."""

    run: RunRecord
    executions: Mapping[str, ExecutionRecord] = {}
    launches: Mapping[str, LaunchRecord] = {}
    makers: Mapping[int, Maker] = {}


def read_run(home: Home, run_id: str) -> PipelineRunFacts:
    """Read a run. Raises NotThere, CannotRead."""
    with _opened(home) as store:
        run = store.run(run_id)
        if run is None:
            raise NotThere(f"there is no run {run_id}")
        executions = store.executions(run_id)
        sides = [side for one in executions.values() for side in (one.inputs, one.outputs)]
        numbers = {record.id for side in sides for records in side.values() for record in records}
        makers = store.makers(sorted(numbers))
        known = {step: home.known_launch(store, run, step) for step in run.steps}
    launches = {step: launch for step, launch in known.items() if launch is not None}
    return PipelineRunFacts(home.seen(run), executions, launches, makers)


def read_artifact(home: Home, number: int) -> tuple[Lineage, Lineage]:
    """Read an artifact: its sources, and the artifacts made from it. Raises NotThere, CannotRead."""
    with _opened(home) as store:
        found = next((one for one in store.artifacts(str(number)) if one.id == number), None)
        if found is None:
            raise NotThere(f"there is no artifact {number}")
        return lineage_of(store, found), lineage_of(store, found, downstream=True)


def log_tail(home: Home, run: RunRecord, step: str, tail_lines: int) -> StepLogTail:
    """Follow a step's log. Raises NotThere for unknown steps of this run, or paths that lead elsewhere."""
    if step not in run.steps or not names_files(run.id, step):
        raise NotThere(f"run {run.id} has no step {step!r}")
    return StepLogTail(home.step_log(run.id, step), tail_lines=tail_lines)


@contextmanager
def _opened(home: Home) -> Iterator[MetadataStore]:
    try:
        if not home.exists():
            raise NotThere("no pipeline was run here yet")
        yield home.reading()
    except StoreError as error:
        raise CannotRead(str(error)) from error
