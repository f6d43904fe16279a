"""One attempt to write the folder of a pod in the archive.

The attempt fills a new folder. It fetches the logs of each container, and takes files from the folder that the archive
already has for the pod.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePath

import msgspec

from tfoperator.kube.protocol.errors import BadRequestError, KubeError, NotFoundError
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import ContainerStateTerminated, ContainerStatus
from tfoperator.logs.archive.layout import ArchivedContainer, ArchivedPod, path_component
from tfoperator.logs.archive.log_file import SavedLog, size_of
from tfoperator.logs.archive.place import Place
from tfoperator.logs.archive.runs import ArchivedRun, RunKey, runs_of_container

logger = logging.getLogger(__name__)

_MAX_EARLIER = 18
"""The maximum number of runs of a container that are kept in addition to its last two runs."""


@dataclass
class Attempt:
    """Fills the new folder of one pod. Only one thread may use it.

    - `fetch` writes the log of a container's run to a file, within `timeout` seconds. `fetch` may raise KubeError or
      OSError.
    - `target` is the pod's folder in the archive, and `folder` is the new folder. `old` is the record in `target`, a
      file that describes the pod and names its logs. `old` is None if there is no record yet.
    - `wanted` are the runs whose logs must be fetched.
    - `kept` are the runs that the archive already has completely. When a run of `wanted` has been fetched, it is added
      to `kept`.
    - `worth_another` becomes true if another attempt may get a log that is missing.
    - `fetched` counts the bytes that were fetched.
    """

    fetch: Callable[[ArchivedRun, Path], SavedLog]
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
        """Save the wanted logs of a container. Return the container with all its archived logs, for the pod's record.

        Raises OSError. A refusal of the API server does not raise: it is added to `problems`.
        """
        none, name = ArchivedContainer(status.name), status.name
        runs = runs_of_container(self.pod, status, init=init)
        saved = {run.previous: self._run(run) for run in runs}
        last, before = saved.get(False, none), saved.get(True, none)
        earlier = self._earlier(name, min((run.number for run in runs), default=0))
        stacks = next((container.stacks for container in self._archived if container.name == name), "")
        return msgspec.structs.replace(
            last,
            init=init,
            restarts=status.restart_count,
            previous_exit_code=before.exit_code,
            previous_finished=before.finished,
            previous_log=before.log,
            size=sum(run.size for run in (last, before, *earlier)),
            problem="; ".join(run.problem for run in (last, before) if run.problem),
            stacks=self.place.take(self.target, stacks, self.folder / stacks)[0],
            earlier=earlier,
        )

    @property
    def _archived(self) -> tuple[ArchivedContainer, ...]:
        return self.old.containers if self.old is not None else ()

    def _archived_runs(self, name: str) -> list[ArchivedContainer]:
        """Return the runs of a container for which the archive has the logs, the oldest first."""
        return [run for container in self._archived if container.name == name for run in container.runs]

    def _earlier(self, name: str, first: int) -> tuple[ArchivedContainer, ...]:
        """Copy the archived logs of a container's runs with a number below `first` into the new folder.

        Return these runs, at most the newest `_MAX_EARLIER`. Kubelets keep only the logs of the last two runs, so these
        logs exist only in the archive.
        """
        copies = []
        for run in [run for run in self._archived_runs(name) if run.restarts < first][-_MAX_EARLIER:]:
            path = self.folder / f"{path_component(name)}.{run.restarts}.log"
            log, size = self.place.take(self.target, run.log, path)
            if log:
                copies.append(msgspec.structs.replace(run, log=log, size=size, stacks=""))
        return tuple(copies)

    def _run(self, run: ArchivedRun) -> ArchivedContainer:
        path = self.folder / f"{path_component(run.container)}{'.previous' if run.previous else ''}.log"
        if run.key not in self.wanted:
            return self._kept_before(run, path)
        try:
            saved = self.fetch(run, path)
        except KubeError as error:
            return self._not_fetched(run, path, error)
        self.kept |= {run.key}
        problem = (
            "" if saved.complete else f"the time limit of {self.timeout:.0f} s was over before the whole log was copied"
        )
        if saved.full:
            problem = (
                "the archive is full. This namespace already uses more space than other namespaces, so the operator "
                "did not remove logs of other namespaces"
            )
        if problem:
            self.problems.append(f"{run.container}: {problem}")
        return self._stored(run, path, saved.size, problem, saved.dropped)

    def _stored(self, run: ArchivedRun, path: Path, size: int, problem: str, dropped: int = 0) -> ArchivedContainer:
        self.fetched += size
        ended = run.end.finished_at if run.end is not None else None
        name = self.place.store(self.target, path, min(ended or self.now, self.now))
        return _archived(run, name, size, problem, dropped)

    def _not_fetched(self, run: ArchivedRun, path: Path, error: KubeError) -> ArchivedContainer:
        problem = str(error)
        if gone := _has_gone(error, self.pod):  # not a failure, but the record mentions it
            logger.info("pod %s was gone before the operator could copy its log: %s", self.pod.metadata.name, error)
            problem = "the pod was gone before the whole log was copied"
        else:
            self.worth_another = self.worth_another or not isinstance(error, BadRequestError)
            self.problems.append(f"{run.container}: {problem}")
        if size := size_of(path):
            return self._stored(run, path, size, problem)
        path.unlink(missing_ok=True)
        before = self._kept_before(run, path)
        return msgspec.structs.replace(before, problem=problem if before.log or not gone else "")

    def _kept_before(self, run: ArchivedRun, path: Path) -> ArchivedContainer:
        """Return the run with the log that the archive has, or without a log if the archive has none.

        The archived log may lack the end of the run.
        """
        for archived in self._archived_runs(run.container):
            if archived.restarts == run.number:
                log, size = self.place.take(self.target, archived.log, path)
                return _archived(run, log, size, dropped=archived.dropped if log else 0)
        return _archived(run)


def _archived(run: ArchivedRun, log: str = "", size: int = 0, problem: str = "", dropped: int = 0) -> ArchivedContainer:
    """Return one run of a container, with its log."""
    end = run.end or ContainerStateTerminated()
    return ArchivedContainer(
        run.container,
        exit_code=end.exit_code if run.end is not None else None,
        reason=end.reason,
        finished=end.finished_at,
        log=log,
        size=size,
        dropped=dropped,
        problem=problem,
    )


class PodGone(KubeError):
    """The pod does not exist any more."""


def _has_gone(error: KubeError, pod: Pod) -> bool:
    """Return whether the error means that the pod does not exist any more.

    A 404 may also name the node of the pod (`pods "node-1" not found`). Then the pod may exist, and its log is lost.
    """
    if not isinstance(error, NotFoundError):
        return isinstance(error, PodGone)
    details = error.status.details
    return details is None or details.name in ("", pod.metadata.name)
