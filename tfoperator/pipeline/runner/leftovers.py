"""Cleans up after runs: stops the containers that a dead runner has left, and removes old runs.

The module also records the outcome of a run whose steps Argo or Airflow launched (`finish_run`).
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial

import msgspec

from tfoperator.base.files import local_path
from tfoperator.kube.protocol.errors import ConfigError, KubeError
from tfoperator.launcher import LaunchContext, LauncherError
from tfoperator.launcher.core.context import connect
from tfoperator.launcher.core.record import recorded_execution
from tfoperator.launcher.platforms.stopping import stop_recorded
from tfoperator.object_store import is_object_url
from tfoperator.pipeline.artifact_data import remove
from tfoperator.pipeline.driver import publish
from tfoperator.pipeline.home import Home, orchestrated
from tfoperator.pipeline.lease import RunInProgress
from tfoperator.pipeline.run_folders import leads_out, tmp_of
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import ExecutionRecord, RunRecord, RunState

_STOP_REASON = "the runner of the run has died, and a later command has stopped the running steps"


class CannotStop(LauncherError):
    """The containers of a run can't be stopped now. The run stays in the state `interrupted`."""


def stop_run(
    home: Home, store: MetadataStore, run: RunRecord, context: LaunchContext, *, wait: bool = False
) -> RunRecord:
    """Stop the containers of a run whose runner is dead, the last steps first. Record that the run was cancelled.

    Raises RunInProgress if the lease of the run is still valid, because a runner on another machine may hold it. With
    `wait`, wait until the lease expires; if the lease is renewed meanwhile, raise RunInProgress. Raises CannotStop if a
    container can't be stopped, for example because the API server can't be reached.
    """
    chosen = partial(connect, run.place.get("kubeconfig"), run.place.get("context"))
    context = dataclasses.replace(
        context,
        namespace=context.namespace or run.place.get("namespace", ""),
        kube=chosen if {"kubeconfig", "context"} & run.place.keys() else context.kube,
    )
    now = context.clock.now()
    with home.lock(store, run.id, context, wait=wait) as ownership:
        run = msgspec.structs.replace(run, term=ownership.term)
        store.put_run(run)  # the store has the new term from now on: it refuses writes of the former runner
        context = dataclasses.replace(context, still_ours=ownership.check)
        failures: list[str] = []
        executions = store.executions(run.id)
        for step in reversed(list(run.steps)):
            try:
                lock = home.lock(store, run.id, context, step=step, wait=wait) if orchestrated(run) else nullcontext()
                with lock:
                    keeper = home.keeper(store, run, step)
                    logged = dataclasses.replace(context, log=home.logs.append_to(run.id, step), keeper=keeper)
                    record = stop_recorded(home.step_folder(run.id, step), logged, _STOP_REASON)
            except (LauncherError, ConfigError, KubeError, OSError) as error:
                failures.append(f"{step}: {error}")
                continue
            execution = executions.get(step)
            if execution is None or execution.state != "RUNNING":
                continue
            if record is not None and record.execution_id == execution.id:
                # The container may have succeeded, although its runner died before it recorded this.
                types = {name: records[0].type for name, records in execution.outputs.items() if records}
                publish(store, recorded_execution(record, now), run, types)
            else:
                stopped = msgspec.structs.replace(execution, state="CANCELED", message=_STOP_REASON)
                store.publish(run, stopped, now)
        if failures:
            raise CannotStop("\n".join([f"run {run.id}: steps that still run can't be stopped:", *failures]))
        run = msgspec.structs.replace(run, state="cancelled", ended=now, message=_STOP_REASON)
        store.put_run(run)
        home.remove_left(store)
        return run


def finish_run(home: Home, store: MetadataStore, run: RunRecord, context: LaunchContext) -> RunRecord:
    """End a run whose steps Argo or Airflow launched. Stop the containers that remain, and record the outcome.

    Raises CannotStop if a container can't be stopped, or if a step is still being launched. For a run that has ended,
    the call does nothing.
    """
    if run.over:
        return run
    if _undone(run, store.executions(run.id)):
        run = stop_run(home, store, run, context, wait=True)
    undone = _undone(run, executions := store.executions(run.id))
    failures = [
        f"{step}: {executions[step].message}"
        for step in undone
        if step in executions and executions[step].state == "FAILED"
    ]
    state: RunState = "failed" if failures else "cancelled" if undone else "succeeded"
    message = "; ".join(failures) or (f"{', '.join(undone)}: not done" if undone else "")
    run = msgspec.structs.replace(run, state=state, message=message, ended=context.clock.now())
    store.put_run(run)
    home.remove_left(store)
    return run


def _undone(run: RunRecord, executions: Mapping[str, ExecutionRecord]) -> list[str]:
    return [
        step for step in run.steps if step not in executions or executions[step].state not in ("COMPLETE", "CACHED")
    ]


def stop_dead_runs(home: Home, store: MetadataStore, context: LaunchContext, *, but: str = "") -> bool:
    """Stop the containers of all runs whose runner is dead. Skip the run `but`, which will be resumed.

    Failures are reported by `context.tell`. Return True if a run still has a valid lease: its runner works, or died so
    recently that the lease has not expired. Runs of Argo and Airflow are skipped, because the orchestrator restarts a
    dead launcher.
    """
    unclear = False
    for run in store.runs():
        if run.id == but or orchestrated(run) or run.over:
            continue
        try:
            stop_run(home, store, run, context)
            context.tell(f"the runner of run {run.id} of {run.pipeline} had died: its running steps were stopped")
        except RunInProgress:
            unclear = True
        except CannotStop as error:
            context.tell(str(error))
    return unclear


def old_runs(home: Home, store: MetadataStore, keep: int) -> list[RunRecord]:
    """Return the runs that have ended and are not among the newest `keep` runs of their pipeline."""
    counts: dict[str, int] = defaultdict(int)
    old = []
    for run in map(home.seen, store.runs()):
        counts[run.pipeline] += 1
        if counts[run.pipeline] > keep and run.over:
            old.append(run)
    return old


def clean_run(home: Home, store: MetadataStore, run: RunRecord, *, outputs: bool) -> list[str]:
    """Remove the records and logs of a run, and with `outputs` its outputs; return the URIs of the removed outputs.

    Only outputs at the run's own URIs, `pipeline_root/STEP/OUTPUT/RUN`, are removed. An output that another run uses is
    kept. Raises RunInProgress if a process owns the run. Raises ObjectStoreError if outputs can't be removed; then the
    run is kept.
    """
    gone: list[str] = []
    removed: list[str] = []
    with home.lock(store, run.id):
        for execution in store.executions(run.id).values() if outputs else ():
            for name, records in execution.outputs.items():
                own = f"{run.root}/{execution.step}/{name}/{run.id}"
                for record in records:
                    uses = store.users_of(record.id, "INPUT") + store.users_of(record.id, "OUTPUT")
                    place, _, number = record.uri.rpartition("/")
                    # An output with several artifacts in an object store has the URLs `own/0`, `own/1` ...
                    is_numbered = is_object_url(own) and place == own and number.isdecimal()
                    if not (record.uri == own or is_numbered) or {use.run_id for use in uses} - {run.id, ""}:
                        continue
                    removed += [record.uri] if remove(record.uri) else []
                    gone.append(record.uri)
        if local_path(run.root) is not None and not leads_out(run.root, tmp_of(run)):
            remove(tmp_of(run))
        home.logs.remove(run.id)
        store.mark_deleted(gone)
        store.forget_run(run.id)
    home.remove(run.id)
    return removed
