"""Which steps of a run are launched when: each as soon as what it reads from is there, several at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

from tfoperator.base.clock import StopSignal
from tfoperator.launcher import BaseComponentLauncher
from tfoperator.pipeline.graph import Graph, ready
from tfoperator.pipeline.runner.progress import Listener, StepState, StepView
from tfoperator.pipeline.runner.step_launch import StepLaunch


class Scheduler:
    """Runs steps in a pool of threads, at most `parallel` at once. `cancel` from any thread, all else from one."""

    def __init__(self, parallel: int, listener: Listener) -> None:
        self._parallel = max(1, parallel)
        self._listener = listener
        self._lock = threading.Lock()  # guards _running, and that no step begins once `cancelled` is set
        self._running: dict[str, BaseComponentLauncher] = {}
        self.cancelled = StopSignal()

    def cancel(self) -> None:
        """Stop the containers that run, gracefully, and begin nothing more. Does not block."""
        with self._lock:
            self.cancelled.set()
            running = list(self._running.values())
        for launcher in running:
            launcher.cancel()

    def run(self, graph: Graph, launches: Mapping[str, StepLaunch]) -> dict[str, StepView]:
        """Run the steps, each of which has its launch by name; returns once none runs any more."""
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
        """Note that a step begins, so that `cancel` reaches it; False if nothing begins any more."""
        with self._lock:
            if not self.cancelled.is_set():
                self._running[launch.name] = launch.launcher
            return not self.cancelled.is_set()

    def _work(self, launch: StepLaunch, ended: queue.SimpleQueue[StepView]) -> None:
        try:
            view = launch.run()
        except BaseException as error:  # noqa: BLE001 - whatever it is, `run` waits for the end of this step
            view = launch.broken(error)
        finally:
            with self._lock:
                self._running.pop(launch.name, None)
        ended.put(view)
