"""Stops the container that a killed launcher has started and left running.

For this, the module needs only the launch record (the launcher's notes about the objects that it has created), and not
the component and its config.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from tfoperator.base.clock import StopSignal
from tfoperator.launcher.container.backend import Backend, Launch, Mailbox
from tfoperator.launcher.core.context import LaunchContext
from tfoperator.launcher.core.output import ContainerEnd, judge, output_file, read_output
from tfoperator.launcher.core.record import LaunchRecord, WorkDirectory
from tfoperator.launcher.platforms.kubernetes.launcher import PodWait
from tfoperator.launcher.platforms.kubernetes.object_backend import ObjectBackend
from tfoperator.launcher.platforms.process import ProcessBackend
from tfoperator.launcher.platforms.tfjob import TFJobWait


def stop_recorded(folder: Path, context: LaunchContext, why: str) -> LaunchRecord | None:
    """Stop and remove the container of the launch that is recorded in a working directory, if the container still runs.

    Then record that the launch was cancelled, with the reason `why`. If the container has ended meanwhile, record the
    outcome, as its launcher would have done; `context.clean_up` decides whether the container is removed. Return the
    new record, or None if there is no record.

    Raises LaunchInProgress if the launcher lives, WorkDirectoryError if the record can't be read, PlatformUnavailable
    or ConfigError if the platform can't be reached.
    """  # fmt: skip
    if context.keeper is None and not folder.is_dir():
        return None
    with WorkDirectory(folder, context.keeper) as work:
        record = work.load()
        if record is None:
            return None
        launch = Launch(record.component, record.run, context, StopSignal(), work, Mailbox(context.clock))
        with _backend(record, launch) as backend:
            if record.state in ("planned", "created"):
                end = backend.ended(record.name, record.uid) if backend is not None and record.name else None
                if end is None:
                    if backend is not None and record.name:
                        backend.stop(record.name, record.uid)
                    record = msgspec.structs.replace(record, state="cancelled", message=why)
                    work.save(record)
                    return record
                record = _concluded(record, end, context)
                work.save(record)
            if backend is not None and record.name and context.clean_up.removes(succeeded=record.state == "succeeded"):
                backend.remove(record.name, record.uid)
        return record


def _concluded(record: LaunchRecord, end: ContainerEnd, context: LaunchContext) -> LaunchRecord:
    output = read_output(context.store, record.place.get("tmp_path", ""), record.decided.outputs, end)
    return msgspec.structs.replace(record, **msgspec.structs.asdict(judge(end, output)))


@contextmanager
def _backend(record: LaunchRecord, launch: Launch) -> Iterator[Backend | None]:
    context = launch.context
    over = record.state not in ("planned", "created")
    if not record.name or (over and not context.clean_up.removes(succeeded=record.state == "succeeded")):
        yield None  # there is nothing to stop
    elif record.kind == "docker":
        from tfoperator.launcher.platforms.docker.backend import DockerBackend
        from tfoperator.launcher.platforms.docker.client import connect_docker

        with closing(connect_docker(record.place.get("engine", ""))) as engine:
            yield DockerBackend(launch, engine, {}, "never", output_file(record.place.get("tmp_path", "")))
    elif record.kind == "process":
        yield ProcessBackend(launch, [], {})
    elif record.kind in ("kubernetes", "tfjob"):
        with context.kube() as client:
            namespace = record.place.get("namespace") or context.namespace or client.namespace or "default"
            yield ObjectBackend(launch, client, namespace, TFJobWait if record.kind == "tfjob" else PodWait, {})
    else:
        yield None  # an in-process class ended with the process of its launcher
