"""Launches the steps of a run, each when its inputs exist, several at once; and records their outcomes."""

from __future__ import annotations

import dataclasses
import logging
import queue
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

from tfoperator.base.clock import StopSignal
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
from tfoperator.pipeline.driver import MetadataDriver
from tfoperator.pipeline.graph import Graph, Step, ready
from tfoperator.pipeline.home import Home
from tfoperator.pipeline.ownership import Ownership
from tfoperator.pipeline.runner.progress import Listener, StepState, StepView
from tfoperator.pipeline.store import MetadataStore, RunRecord, StoreError

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class RunParts:
    """The common data of the launches of one run. `ownership` is None if the launcher's working directory
    excludes others.
    """

    home: Home
    store: MetadataStore
    graph: Graph
    run: RunRecord
    ownership: Ownership | None
    cache: bool


class StepLaunch:
    """One launch of a step. Call `run` from one thread; its log lines may come from several."""

    launcher: BaseComponentLauncher

    def __init__(self, parts: RunParts, step: Step, pattern: LaunchContext, listener: Listener) -> None:
        home, run = parts.home, parts.run
        self.name = step.name
        self.result: LaunchResult | None = None
        self.unfinished = False
        """Whether its container may still run, without a launcher."""
        self._listener = listener
        self._clock = pattern.clock
        self._view = StepView(step.name, after=tuple(sorted(step.after)))
        self._keep_line = home.log_to(run.id, step.name)
        metadata = MetadataDriver(parts.store, parts.graph, run)
        self.context = dataclasses.replace(
            pattern,
            work_dir=home.step_folder(run.id, step.name),
            tmp_path=f"{pattern.tmp_path}/{run.id}/{step.name}" if pattern.tmp_path else "",
            cache=parts.cache,
            resume=True,
            driver=metadata,
            publisher=metadata,
            keeper=home.keeper(parts.store, run, step.name),
            still_ours=parts.ownership.check if parts.ownership is not None else pattern.still_ours,
            log=self._log,
            tell=lambda message: listener.tell(step.name, message),
        )

    def began(self) -> StepView:
        """Record the start."""
        self._view = msgspec.structs.replace(self._view, state=StepState.RUNNING, began=self._clock.now())
        return self._view

    def run(self) -> StepView:
        """Launch it; return the outcome. Raises no Exception."""
        try:
            self.result = result = self.launcher.launch()
        except LaunchCancelled as error:
            return self._ended(StepState.CANCELLED, str(error))
        except (PlatformUnavailable, OwnershipLost, StoreError) as error:
            self.unfinished = True
            return self._ended(StepState.RETRYABLE, str(error))
        except (RetryableFailure, LaunchInProgress) as error:
            return self._ended(StepState.RETRYABLE, str(error))
        except (PermanentFailure, ComponentError) as error:
            return self._ended(StepState.FAILED, str(error))
        except Exception as error:  # noqa: BLE001 - it is logged there
            return self.broken(error)
        state = StepState.CACHED if result.cached else StepState.SUCCEEDED
        view = self._ended(state, "")
        return msgspec.structs.replace(view, attempts=result.attempts, execution_id=result.execution_id)

    def broken(self, error: BaseException) -> StepView:
        """Record an unexpected failure of the launch. The record names the created object, which may still run."""
        logger.error("step %s: its launch failed", self.name, exc_info=error)
        self.unfinished = True
        return self._ended(StepState.RETRYABLE, f"{type(error).__name__}: {error}")

    def _ended(self, state: StepState, message: str) -> StepView:
        return msgspec.structs.replace(self._view, state=state, ended=self._clock.now(), message=message)

    def _log(self, line: str) -> None:
        self._keep_line(line)
        self._listener.log(self.name, line)


class Scheduler:
    """Runs steps in a pool of threads, at most `parallel` at once. `cancel` from any thread, the rest from one."""

    def __init__(self, parallel: int, listener: Listener) -> None:
        self._parallel = max(1, parallel)
        self._listener = listener
        self._lock = threading.Lock()  # guards _running, and that no step starts once `cancelled` is set
        self._running: dict[str, BaseComponentLauncher] = {}
        self.cancelled = StopSignal()

    def cancel(self) -> None:
        """Stop the running containers gracefully, and start nothing more. Does not block."""
        with self._lock:
            self.cancelled.set()
            running = list(self._running.values())
        for launcher in running:
            launcher.cancel()

    def run(self, graph: Graph, launches: Mapping[str, StepLaunch]) -> dict[str, StepView]:
        """Run the steps, whose launches are by name; return when none runs any more."""
        views = {step.name: StepView(step.name, after=tuple(sorted(step.after))) for step in graph.steps}
        for view in views.values():
            self._listener.step(view)
        ended: queue.SimpleQueue[StepView] = queue.SimpleQueue()
        running: set[str] = set()
        with ThreadPoolExecutor(self._parallel, thread_name_prefix="step") as pool:
            while True:
                done = [name for name, view in views.items() if view.state.done]
                begun = [name for name, view in views.items() if view.state is not StepState.WAITING]
                for step in ready(graph, done, begun)[: self._parallel - len(running)]:
                    if not self.admit(launches[step.name]):
                        break
                    running.add(step.name)
                    views[step.name] = launches[step.name].began()
                    self._listener.step(views[step.name])
                    pool.submit(self._work, launches[step.name], ended)
                if not running:
                    break
                view = ended.get()
                running.discard(view.name)
                views[view.name] = view
                self._listener.step(view)
        for name, view in views.items():
            if view.state is StepState.WAITING:
                views[name] = msgspec.structs.replace(view, state=StepState.SKIPPED)
                self._listener.step(views[name])
        return views

    def admit(self, launch: StepLaunch) -> bool:
        """Register a starting step, so that `cancel` reaches it; return False if nothing may start any more."""
        with self._lock:
            if not self.cancelled.is_set():
                self._running[launch.name] = launch.launcher
            return not self.cancelled.is_set()

    def _work(self, launch: StepLaunch, ended: queue.SimpleQueue[StepView]) -> None:
        try:
            view = launch.run()
        except BaseException as error:  # noqa: BLE001 - after any error, `run` waits for the end of this step
            view = launch.broken(error)
        finally:
            with self._lock:
                self._running.pop(launch.name, None)
        ended.put(view)
