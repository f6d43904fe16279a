"""One attempt to fill the folder of a pod: what to fetch of each container, and what to take from the old folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePath

import msgspec

from tfoperator.kube.errors import BadRequestError, KubeError, NotFoundError
from tfoperator.kube.objects import ContainerStatus, Pod
from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod, path_component
from tfoperator.logs.archive.log_file import SavedLog
from tfoperator.logs.archive.place import Place
from tfoperator.logs.archive.runs import Run, RunKey, file_of, runs_of_container

logger = logging.getLogger(__name__)

_MAX_EARLIER = 18
"""The most runs of a container that are kept besides the last two."""


class _SavedRun(msgspec.Struct, frozen=True):
    """The file of one run (empty: none), its bytes, the number of those left out before it, and its problem.

    A pod that has `gone` is not a failure, but is in the record.
    """

    file: str = ""
    size: int = 0
    dropped: int = 0
    problem: str = ""
    gone: bool = False


@dataclass
class Attempt:
    """Fills one new folder. For one thread.

    `fetch` writes the log of a run to a file, within `timeout` seconds. It raises KubeError and OSError. `target` is
    the pod's folder in the archive, `folder` the new one, and `old` the record of the first. `kept` are the runs that
    the archive has completely, and those `wanted` once they are fetched.
    """

    fetch: Callable[[Run, Path], SavedLog]
    timeout: float
    now: datetime
    place: Place
    target: PurePath
    pod: Pod
    folder: Path
    old: ArchivedPod | None
    wanted: frozenset[RunKey]
    kept: frozenset[RunKey]
    problems: list[str] = field(default_factory=list)
    worth_another: bool = False
    fetched: int = 0

    def container(self, status: ContainerStatus, *, init: bool) -> ArchivedContainer:
        """Save the wanted logs of a container. Raises OSError; refusals of the API server go into `problems`."""
        runs = runs_of_container(self.pod, status, init=init)
        saved = {run.previous: self._run(run) for run in runs}
        earlier = self._earlier(status.name, runs)
        problem = "; ".join(one.problem for one in saved.values() if one.problem)
        self.problems += [f"{status.name}: {one.problem}" for one in saved.values() if one.problem and not one.gone]
        newest = next((run for run in runs if not run.previous), None)
        before = next((run for run in runs if run.previous), None)
        end = newest.end if newest is not None else None
        return ArchivedContainer(
            name=status.name,
            init=init,
            restarts=status.restart_count,
            exit_code=end.exit_code if end is not None else None,
            reason=end.reason if end is not None else "",
            finished=end.finished_at if end is not None else None,
            log=saved[False].file if newest is not None else "",
            previous_exit_code=before.end.exit_code if before is not None and before.end is not None else None,
            previous_finished=before.end.finished_at if before is not None and before.end is not None else None,
            previous_log=saved[True].file if before is not None else "",
            size=sum(one.size for one in saved.values()) + sum(run.size for run in earlier),
            dropped=saved[False].dropped if newest is not None else 0,
            problem=problem,
            earlier=earlier,
        )

    def _earlier(self, name: str, runs: Iterable[Run]) -> tuple[ArchivedContainer, ...]:
        """Take over the logs that the archive has of a container's runs before these; kubelets keep the last two."""
        first = min((run.number for run in runs), default=0)
        known = (one for one in (self.old.containers if self.old is not None else ()) if one.name == name)
        found = []
        for run in [run for one in known for run in one.runs if run.restarts < first][-_MAX_EARLIER:]:
            path = self.folder / f"{path_component(name)}.{run.restarts}.log"
            log, size = self.place.take(self.target, run.log, path)
            if log:
                found.append(msgspec.structs.replace(run, log=log, size=size, stacks=""))
        return tuple(found)

    def _run(self, run: Run) -> _SavedRun:
        path = self.folder / f"{path_component(run.container)}{'.previous' if run.previous else ''}.log"
        if run.key not in self.wanted:
            return self._kept_before(run, path)
        try:
            saved = self.fetch(run, path)
        except KubeError as error:
            return self._not_fetched(run, path, error)
        name = self._stored(run, path)
        self.fetched += saved.size
        self.kept |= {run.key}
        problem = "" if saved.complete else f"cut off after {self.timeout:.0f} s"
        if saved.full:
            problem = "the archive has no room for it; others' logs are not removed for a namespace that has more"
        return _SavedRun(name, saved.size, saved.dropped, problem)

    def _stored(self, run: Run, path: Path) -> str:
        ended = run.end.finished_at if run.end is not None else None
        return self.place.store(self.target, path, min(ended or self.now, self.now))

    def _not_fetched(self, run: Run, path: Path, error: KubeError) -> _SavedRun:
        gone = _has_gone(error, self.pod)
        problem = str(error)
        if gone:
            logger.info("%s has gone, and a log with it: %s", self.pod.metadata.name, error)
            problem = "the pod was gone before the rest could be fetched"
        elif not isinstance(error, BadRequestError):
            self.worth_another = True
        if size := _size(path):
            self.fetched += size
            return _SavedRun(self._stored(run, path), size, problem=problem, gone=gone)
        path.unlink(missing_ok=True)
        before = self._kept_before(run, path)
        return msgspec.structs.replace(before, problem=problem if before.file or not gone else "", gone=gone)

    def _kept_before(self, run: Run, path: Path) -> _SavedRun:
        """Return the archive's log of the run, perhaps from before its end."""
        name = file_of(self.old, run)
        kept, size = self.place.take(self.target, name, path)
        known = self.old.containers if self.old is not None and kept else ()
        return _SavedRun(kept, size, next((one.dropped for one in known if one.log == name), 0))


class PodGone(KubeError):
    """The pod does not exist any more."""


def _has_gone(error: KubeError, pod: Pod) -> bool:
    """Return whether the pod was not found; it may be the node (`pods "node-1" not found`), and then a log is lost."""
    if not isinstance(error, NotFoundError):
        return isinstance(error, PodGone)
    details = error.status.details
    return details is None or details.name in ("", pod.metadata.name)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
