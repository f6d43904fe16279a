"""The steps of a run: their launches and outcomes, their states, and which steps can start."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from tfoperator.launcher import (
    BaseComponentLauncher,
    ComponentError,
    LaunchCancelled,
    LaunchContext,
    LaunchInProgress,
    LaunchResult,
    OwnershipLost,
    PermanentFailure,
    PlatformUnavailable,
    RetryableFailure,
)
from tfoperator.launcher.core.context import in_cluster
from tfoperator.pipeline.driver import MetadataDriver, looked_up
from tfoperator.pipeline.graph import Graph, Step, Unfolded, hopeless, ready
from tfoperator.pipeline.home import Home
from tfoperator.pipeline.kfp.machine_options import remove_folders
from tfoperator.pipeline.kfp.settings import check_settings
from tfoperator.pipeline.lease import RunLease
from tfoperator.pipeline.run_folders import leads_out, tmp_of
from tfoperator.pipeline.runner.platforms import on_volume, shares_root
from tfoperator.pipeline.runner.progress import Listener, StepState, StepView
from tfoperator.pipeline.store.database import StoreError
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import ExecutionRecord, RunRecord, RunState
from tfoperator.pipeline.values import OUTPUT, STATUS, LeftOut, NotPutOut, NotYet, Value, evaluate, sources

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class RunParts:
    """The objects that belong to a run in progress. Only one thread may use them.

    `run` is the record of the run. `ownership` is the lease of the run. `pattern` is the LaunchContext from which the
    context of each step is made. `choose` returns the launcher of a step.
    """

    home: Home
    store: MetadataStore
    graph: Graph
    run: RunRecord
    ownership: RunLease
    pattern: LaunchContext
    listener: Listener
    choose: Callable[[Graph, Step, str, LaunchContext], BaseComponentLauncher]

    def record(self, state: RunState = "running", **changes: Any) -> None:
        """Write the run to the store, with this state and these changes of its fields.

        If `changes` has no `message`, it becomes "". If `changes` has no `ended`, it becomes None. Raises OwnershipLost
        if another runner has taken over the run, or StoreError.
        """
        self.run = msgspec.structs.replace(self.run, **{"state": state, "message": "", "ended": None, **changes})
        self.store.put_run(self.run)


class StepLaunch:
    """A launch of a step. Call `run` from one thread. The step's log lines may come from several threads.

    `skipped` names the steps of the run that were skipped because of a failure.
    """

    def __init__(self, parts: RunParts, step: Step, skipped: Collection[str] = ()) -> None:
        home, run, pattern, listener = parts.home, parts.run, parts.pattern, parts.listener
        self.name = step.name
        self.result: LaunchResult | None = None
        self.unfinished = False
        """Whether the step's container may still be running after `run` has returned."""
        self._listener = listener
        self.view = StepView(step.name, StepState.RUNNING, tuple(sorted(step.after)), pattern.clock.now())
        """The step in the state `running`, as it was at the beginning of the launch."""
        self._keep_line = home.logs.append_to(run.id, step.name)
        self._metadata = metadata = MetadataDriver(parts.store, run, step, skipped)
        tmp_path = f"{pattern.tmp_path}/{run.id}/{step.name}" if pattern.tmp_path else ""
        self.context = dataclasses.replace(
            pattern,
            work_dir=home.step_folder(run.id, step.name),
            tmp_path=tmp_path,
            cache=parts.graph.enable_cache and step.cache,
            retry=step.retry or pattern.retry,
            resume=True,
            driver=metadata,
            publisher=metadata,
            keeper=home.keeper(parts.store, run, step.name),
            still_ours=parts.ownership.check,
            log=self._log,
            tell=lambda message: listener.tell(step.name, message),
        )
        self.launcher = parts.choose(parts.graph, step, run.id, self.context)
        shared = f"{tmp_of(run)}/{step.name}"
        sees_root = not tmp_path and in_cluster() and on_volume(run.root) and shares_root(self.launcher, run.root)
        if sees_root and not leads_out(run.root, shared):
            # The step writes output.json to the volume, where its size has no limit. A termination message is cut.
            self.context = dataclasses.replace(self.context, tmp_path=shared)
            self.launcher = parts.choose(parts.graph, step, run.id, self.context)

    def run(self) -> StepView:
        """Launch the step and return its outcome, also if the step fails.

        The method raises only KeyboardInterrupt, SystemExit and similar exceptions, and only in the main thread.
        """
        try:
            self.result = result = self.launcher.launch()
        except LaunchCancelled as error:
            return self._ended(StepState.CANCELLED, str(error))
        except PlatformUnavailable as error:
            self.unfinished = self.launcher.may_run
            return self._ended(StepState.RETRYABLE, str(error))
        except (OwnershipLost, StoreError) as error:
            self.unfinished = True
            return self._ended(StepState.RETRYABLE, str(error))
        except (RetryableFailure, LaunchInProgress) as error:
            return self._ended(StepState.RETRYABLE, str(error))
        except (PermanentFailure, ComponentError) as error:
            try:
                self._metadata.fail(str(error), self.context.clock.now())
            except (OwnershipLost, StoreError) as unrecorded:
                logger.warning("step %s: its failure can't be recorded: %s", self.name, unrecorded)
            return self._ended(StepState.FAILED, str(error))
        except BaseException as error:  # an unexpected error of a launcher ends this step, but not the other steps
            if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
                raise
            logger.exception("step %s: its launch failed", self.name)
            self.unfinished = True  # the launcher may have created a container; the record of the launch names it
            state = StepState.CANCELLED if isinstance(error, KeyboardInterrupt) else StepState.RETRYABLE
            return self._ended(state, f"{type(error).__name__}: {error}")
        state = StepState.CACHED if result.cached else StepState.SUCCEEDED
        return self._ended(state, "", attempts=result.attempts, execution_id=result.execution_id)

    def _ended(self, state: StepState, message: str, **more: int) -> StepView:
        if state is not StepState.RETRYABLE and not self.unfinished and self.context.work_dir is not None:
            remove_folders(self.context.work_dir)
        return msgspec.structs.replace(self.view, state=state, ended=self.context.clock.now(), message=message, **more)

    def _log(self, line: str) -> None:
        self._keep_line(line)
        self._listener.log(self.name, line)


_OPEN = (StepState.WAITING, StepState.RUNNING)


class RunSteps:
    """The steps of a run, and the state of each step. Only one thread may use an instance.

    The steps for the iterations of a loop are added when the items of the loop are known.
    """

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._executions: dict[str, ExecutionRecord] = {}
        self._chosen: dict[str, Step] = {}  # the steps whose conditions hold, with their settings
        self._folded = True  # whether the items of a loop may still be unknown
        self._steps: list[Step] = []
        self.views: dict[str, StepView] = {}
        self._unfold()

    @property
    def skipped(self) -> list[str]:
        """The steps that were skipped because of a failure."""
        return [name for name, view in self.views.items() if view.state is StepState.SKIPPED]

    def see(self, view: StepView) -> None:
        """Record the changed state of a step, and notify the listener."""
        self.views[view.name] = view
        self._parts.listener.step(view)

    def startable(self) -> list[Step]:
        """Return the steps that can start now.

        A step that can never start, because a step before it has not succeeded, is recorded as `skipped`. A step that
        could start is not returned in two cases. If its condition, or the condition of a step whose output it reads, is
        false, the step is recorded as `left out`. If its inputs or settings are not valid, it is recorded as `failed`.
        """
        while True:
            self._unfold()
            ended = frozenset([name for name, view in self.views.items() if view.state not in _OPEN])
            done = frozenset([name for name in ended if self.views[name].state.done])
            after = {name: view.after for name, view in self.views.items()}
            skipped = self._waiting(hopeless(self._steps, after, done, ended))
            for step in skipped:
                self.see(msgspec.structs.replace(self.views[step.name], state=StepState.SKIPPED))
            if skipped:
                continue
            due = self._waiting(ready(self._steps, after, done, ended))
            chosen = [step for step in due if step.name in self._chosen or self._wanted(step)]
            if len(chosen) == len(due):
                return [self._chosen[step.name] for step in chosen]

    def skip_stuck(self) -> bool:
        """Record the steps as skipped that wait, although no step runs or can start. Return whether there are any.

        Such a step is in a loop whose items will never be known. After it was skipped, a step that always runs may be
        able to start.
        """
        waiting = self._waiting(self._steps)
        patterns = [step for step in waiting if step.loops and not step.at]
        stuck = patterns or [step for step in waiting if not step.always]
        for step in stuck:
            self.see(msgspec.structs.replace(self.views[step.name], state=StepState.SKIPPED))
        return bool(stuck)

    def skip_rest(self) -> None:
        """Record all waiting steps as skipped."""
        for step in self._waiting(self._steps):
            self.see(msgspec.structs.replace(self.views[step.name], state=StepState.SKIPPED))

    def _waiting(self, steps: Iterable[Step]) -> list[Step]:
        return [step for step in steps if self.views[step.name].state is StepState.WAITING]

    def _unfold(self) -> None:
        if not self._folded:
            return
        before = set(self.views)
        unfolded = Unfolded(self._parts.graph, self._lookup)
        self._steps = unfolded.steps
        self._folded = any(step.loops and not step.at for step in self._steps)
        views = {step.name: StepView(step.name, after=tuple(unfolded.after(step))) for step in self._steps}
        for name in views.keys() & before:
            views[name] = msgspec.structs.replace(self.views[name], after=views[name].after)
        self.views = views
        for step in self._steps:
            if step.name in unfolded.wrong and views[step.name].state is StepState.WAITING:
                self._end_loop(step, unfolded.wrong[step.name])
            elif step.name not in before and (step.at or not step.loops):
                self._parts.listener.step(views[step.name])
        if views.keys() != (before or {step.name for step in self._parts.graph.steps}):
            self._parts.record(steps={name: view.after for name, view in views.items()})

    def _end_loop(self, step: Step, message: str) -> None:
        """Record that a step has failed, because the items of its loop are not valid.

        If the condition of the step is false, the step is `left out` instead. While the condition is not known, the
        call does nothing.
        """
        with suppress(NotYet, NotPutOut):
            try:
                wanted = all(evaluate(condition, self._lookup) for condition in step.when)
            except ComponentError:
                wanted = True
            except NotPutOut:
                raise  # the step will be skipped
            except LeftOut:
                wanted = False
            state = StepState.FAILED if wanted else StepState.LEFT_OUT
            self._end(step, state, message if wanted else "its condition is not true")

    def _wanted(self, step: Step) -> bool:
        """Return whether a step will run. If not, record its state: `left out` or `failed`.

        The state is `left out` if the condition of the step, or of a step whose output it reads, is false. It is
        `failed` if the inputs or settings are invalid, or if a step whose output it reads has not succeeded.
        """
        settings: dict[str, Any] = {}
        try:
            if not all(evaluate(condition, self._lookup) for condition in step.when):
                raise LeftOut("its condition is not true")
            for source in step.inputs.values():
                evaluate(source, partial(self._lookup, content=False))
            for value in step.exec_properties.values():
                evaluate(value, self._lookup)
            settings = {name: evaluate(setting, self._lookup) for name, setting in step.settings.items()}
            check_settings(f"step {step.name}", settings)
        except (NotPutOut, ComponentError) as error:
            self._end(step, StepState.FAILED, str(error))
        except LeftOut as error:
            self._end(step, StepState.LEFT_OUT, str(error))
        if wanted := self.views[step.name].state is StepState.WAITING:
            self._chosen[step.name] = msgspec.structs.replace(step, settings=settings)
        return wanted

    def fail(self, step: Step, message: str) -> None:
        """Record that a step can't be launched and has failed."""
        self._end(step, StepState.FAILED, message)

    def _end(self, step: Step, state: StepState, message: str) -> None:
        if state is StepState.FAILED:
            parts = self._parts
            MetadataDriver(parts.store, parts.run, step).fail(message, parts.pattern.clock.now())
        self.see(msgspec.structs.replace(self.views[step.name], state=state, message=message))

    def _lookup(self, value: Value, *, content: bool = True) -> Any:
        unknown = []
        for name in sources(value):
            state = self.views[name].state if name in self.views else StepState.WAITING
            if state in _OPEN:
                raise NotYet(name)
            if value.op == OUTPUT and state is StepState.LEFT_OUT:
                raise LeftOut(f"this step reads the output of step {name}, which was skipped")
            if value.op == OUTPUT and not state.done:
                raise NotPutOut(f"this step reads the output of step {name}, which has not succeeded")
            execution = self._executions.get(name)
            if state is not StepState.LEFT_OUT and (execution is None or execution.state not in ("COMPLETE", "CACHED")):
                unknown.append(name)
        if unknown:
            self._executions |= self._parts.store.executions(self._parts.run.id, unknown)
        parts, skipped = self._parts, self.skipped if value.op == STATUS else ()
        return looked_up(value, self._executions, run=parts.run, store=parts.store, content=content, skipped=skipped)
