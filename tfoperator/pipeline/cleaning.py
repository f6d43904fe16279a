"""Removes runs that are over: records, logs, and if asked for what they have put out and nobody else uses."""

from __future__ import annotations

import shutil
from collections import defaultdict

from tfoperator.pipeline.home import Home
from tfoperator.pipeline.local_paths import local_path
from tfoperator.pipeline.store import MetadataStore, RunRecord


def old_runs(home: Home, store: MetadataStore, keep: int) -> list[RunRecord]:
    """The runs beyond the newest `keep` of each pipeline that are over."""
    seen: dict[str, int] = defaultdict(int)
    found = []
    for run in map(home.seen, store.runs()):
        seen[run.pipeline] += 1
        if seen[run.pipeline] > keep and run.state not in ("running", "interrupted"):
            found.append(run)
    return found


def clean_run(home: Home, store: MetadataStore, run: RunRecord, *, outputs: bool) -> list[str]:
    """Remove a run; returns the URIs of outputs that were removed. Raises RunInProgress.

    Only what lies where this run's outputs go is removed, `pipeline_root/step/output/run`, and nothing that another
    run has used again.
    """
    removed: list[str] = []
    with home.lock(run.id):
        for execution in store.executions(run.id).values() if outputs else ():
            for name, records in execution.outputs.items():
                own = f"{run.root}/{execution.step}/{name}/{run.id}"
                for record in records:
                    users = {
                        one.run_id for direction in ("INPUT", "OUTPUT") for one in store.users_of(record.id, direction)
                    }
                    path = local_path(record.uri)
                    if record.uri != own or path is None or users - {run.id, ""}:
                        continue
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink(missing_ok=True)
                    removed.append(record.uri)
        store.mark_deleted(removed)
        store.forget_run(run.id)
    home.remove(run.id)
    return removed
