"""One attempt to fill the folder of a pod: what to fetch of each container, and what to take from the old folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from tfoperator.kube.errors import BadRequestError, KubeError, NotFoundError
from tfoperator.kube.objects import ContainerStatus, Pod
from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod, path_component
from tfoperator.logs.archive.log_file import SavedLog, link
from tfoperator.logs.archive.runs import Run, RunKey, file_of, runs_of_container

logger = logging.getLogger(__name__)


class _SavedRun(msgspec.Struct, frozen=True):
    """The file of one run (empty: none), the number of bytes left out before it, and its problem.

    A pod that has `gone` is not a failure, but is in the record.
    """

    file: str = ""
    dropped: int = 0
    problem: str = ""
    gone: bool = False


class Attempt:
    """Fills one new folder. For one thread."""

    def __init__(
        self,
        fetch: Callable[[Run, Path], SavedLog],
        timeout: float,
        pod: Pod,
        folder: Path,
        old: ArchivedPod | None,
        wanted: frozenset[RunKey],
        have: frozenset[RunKey],
    ) -> None:
        """`fetch` writes the log of a run to a file, within `timeout` seconds. It raises KubeError and OSError."""
        self._fetch = fetch
        self._timeout = timeout
        self._pod = pod
        self._folder = folder
        self._old = old
        self._wanted = wanted
        self.kept = have
        self.problems: list[str] = []
        self.worth_another = False
        self.fetched = 0

    def container(self, status: ContainerStatus, *, init: bool) -> ArchivedContainer:
        """Save the wanted logs of a container. Raises OSError; refusals of the API server go into `problems`."""
        runs = runs_of_container(self._pod, status, init=init)
        saved = {run.previous: self._run(run) for run in runs}
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
            size=sum(_size(self._folder / one.file) for one in saved.values() if one.file),
            dropped=saved[False].dropped if newest is not None else 0,
            problem=problem,
        )

    def _run(self, run: Run) -> _SavedRun:
        path = self._folder / f"{path_component(run.container)}{'.previous' if run.previous else ''}.log"
        if run.key not in self._wanted:
            return self._kept_before(run, path)
        try:
            saved = self._fetch(run, path)
        except KubeError as error:
            return self._not_fetched(run, path, error)
        path.chmod(0o640)
        self.fetched += saved.size
        self.kept |= {run.key}
        problem = "" if saved.complete else f"cut off after {self._timeout:.0f} s"
        if saved.full:
            problem = "the archive has no room for it; others' logs are not removed for a namespace that has more"
        return _SavedRun(path.name, saved.dropped, problem)

    def _not_fetched(self, run: Run, path: Path, error: KubeError) -> _SavedRun:
        gone = _has_gone(error, self._pod)
        problem = str(error)
        if gone:
            logger.info("%s has gone, and a log with it: %s", self._pod.metadata.name, error)
            problem = "the pod was gone before the rest could be fetched"
        elif not isinstance(error, BadRequestError):
            self.worth_another = True
        if _size(path):
            path.chmod(0o640)
            self.fetched += _size(path)
            return _SavedRun(path.name, problem=problem, gone=gone)
        path.unlink(missing_ok=True)
        before = self._kept_before(run, path)
        return msgspec.structs.replace(before, problem=problem if before.file or not gone else "", gone=gone)

    def _kept_before(self, run: Run, path: Path) -> _SavedRun:
        """Return the archive's log of the run, perhaps from before its end."""
        name = file_of(self._old, run)
        if self._old is None or not name or os.sep in name:
            return _SavedRun()
        try:
            link(Path(self._old.folder) / name, path)
        except FileNotFoundError:  # removed meanwhile, to make room
            return _SavedRun()
        dropped = next((one.dropped for one in self._old.containers if one.log == name), 0)
        return _SavedRun(path.name, dropped)


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
