"""How fast the records of pipelines are written by several processes at once, and how long the slowest execution takes.

    python -m hack.bench.records [--store postgresql] [--processes 8] [--executions 1000] [--load 16]

Each process is the runner of a run of its own. An execution is three transactions under the run's lease: it is begun,
its launch is recorded, its outcome is published. Both engines write durably. `--load` starts so many processes beside
them that do nothing but take processor time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from hack.postgres import postgres_server
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, RecordedLease, RunRecord


def execute(place: Path | str, name: str, count: int, go: Any, times: Any) -> None:
    """In a process: so many executions of one run; put the seconds of each, or the error."""
    seconds: list[float] = []
    try:
        with MetadataStore(place) as store:
            now = datetime.now(UTC)
            steps: dict[str, tuple[str, ...]] = {f"s{number}": () for number in range(count)}
            term = store.take_lease(name, RecordedLease(holder=name), 600.0)
            run = RunRecord(name, "bench", "running", "/root", "f", now, steps=steps, term=term)
            store.put_run(run)
            go.wait()
            for step in steps:
                began = time.monotonic()
                properties = {"alpha": 0.5, "steps": 1000, "name": step}
                model = ArtifactRecord(0, "Model", f"/root/{step}/model/{name}", "PENDING")
                new = ExecutionRecord(
                    0, name, step, "Train", "RUNNING", "", "0" * 64, "", properties, {}, {"model": (model,)}
                )
                execution = store.begin_execution(run, new, now)
                store.put_launch(run, step, b'{"component": "x", "state": "created"}')
                made = ArtifactRecord(0, "Model", model.uri, "LIVE", {"loss": 0.1}, made=True)
                done = msgspec.structs.replace(
                    execution, state="COMPLETE", image_id="sha256:1", outputs={"model": (made,)}
                )
                store.publish(run, done, now)
                seconds.append(time.monotonic() - began)
        times.put(seconds)
    except Exception as error:  # noqa: BLE001 - the parent prints it
        times.put(f"{type(error).__name__}: {error}")


def spin() -> None:
    """In a process: take processor time."""
    while True:
        pass


def measured(place: Path | str, processes: int, executions: int, load: int) -> list[float] | str:
    """Return the seconds of the whole, then the seconds of all executions; or the first error."""
    MetadataStore(place).close()  # its tables
    context = multiprocessing.get_context("fork")
    go, times = context.Barrier(processes + 1), context.SimpleQueue()
    others = [context.Process(target=spin, daemon=True) for _ in range(load)]
    writers = [
        context.Process(target=execute, args=(place, f"r{number}", executions // processes, go, times), daemon=True)
        for number in range(processes)
    ]
    for process in [*others, *writers]:
        process.start()
    try:
        go.wait(60)
        began = time.monotonic()
        results = [times.get() for _ in writers]
        whole = time.monotonic() - began
    finally:
        for process in [*others, *writers]:
            process.kill()
            process.join()
    failed = [result for result in results if isinstance(result, str)]
    return failed[0] if failed else [whole, *(seconds for result in results for seconds in result)]


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 if a write failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--executions", type=int, default=1000)
    parser.add_argument("--load", type=int, default=0)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        place: Path | str = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "metadata.db"
        if options.store == "postgresql":
            server = stack.enter_context(postgres_server(durable=True))
            os.environ["PGPASSFILE"] = str(server.passfile)
            place = server.database("bench")
        before = os.getloadavg()[0]
        outcome = measured(place, options.processes, options.executions, options.load)
    if isinstance(outcome, str):
        print(outcome)
        return 1
    whole, *each = sorted(outcome, reverse=True)
    print(
        f"{options.store}, {options.processes} processes, {options.load} beside them, load before {before:.1f}: "
        f"{len(each) / whole:.0f} executions a second; "
        f"median {statistics.median(each):.3f} s, slowest {max(each):.2f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
