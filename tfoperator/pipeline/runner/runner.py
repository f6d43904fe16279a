"""Runs a pipeline in this process.

The runner takes the lease of a run, starts each step when the step's predecessors have ended, and records the outcome.
"""

from __future__ import annotations

import dataclasses
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from tfoperator.base.clock import StopSignal
from tfoperator.launcher import (
    BaseComponentLauncher,
    ComponentError,
    ComponentLaunchInfo,
    LaunchContext,
    PlatformConfig,
)
from tfoperator.object_store import is_object_url
from tfoperator.pipeline.dsl.pipeline import Pipeline
from tfoperator.pipeline.graph import Graph, Step, check_fixed
from tfoperator.pipeline.home import DEFAULT_HOME, ORCHESTRATOR, Home, is_run_id
from tfoperator.pipeline.kfp.machine_options import ObjectData
from tfoperator.pipeline.kfp.settings import MachineShare, without_effect
from tfoperator.pipeline.lease import LEASE_SECONDS, RunInProgress, RunLease
from tfoperator.pipeline.runner.base import TfxRunner, absolute_graph, new_run_id
from tfoperator.pipeline.runner.leftovers import stop_dead_runs
from tfoperator.pipeline.runner.platforms import (
    ON_DOCKER,
    check_records_are_hidden,
    check_report_is_new,
    with_root,
    with_settings,
)
from tfoperator.pipeline.runner.progress import (
    Listener,
    PipelineCancelled,
    PipelineFailed,
    PipelineResult,
    StepState,
    StepView,
    outcome_of,
)
from tfoperator.pipeline.runner.steps import RunParts, RunSteps, StepLaunch
from tfoperator.pipeline.store.metadata_store import MetadataStore
from tfoperator.pipeline.store.records import RunRecord


class RunOrigin(TypedDict, total=False):
    """The origin of a run, which the runner records: the pipeline's file, the parameters, and `place`.

    `place` has settings such as `namespace`, by which a later process finds the containers of the run.
    """

    source: str
    parameters: Mapping[str, Any]
    place: Mapping[str, str]


@contextmanager
def on_signals(cancel: Callable[[], None]) -> Iterator[None]:
    """Let SIGINT and SIGTERM call `cancel` within the `with` block, unless the program has set its own handlers.

    Only the main thread can set handlers. In any other thread, the function does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(*_: object) -> None:
        # `cancel` takes a lock. The interrupted main thread may hold this lock, so a new thread calls `cancel`.
        threading.Thread(target=cancel, name="cancel-pipeline", daemon=True).start()

    with ExitStack() as after:
        for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) is default:
                after.callback(signal.signal, number, signal.signal(number, handle))
        yield


class PipelineRunner(TfxRunner):
    """Runs pipelines from this process, one at a time. Call `run` from one thread. Any thread may call `cancel`.

    - `platform_configs` has a list of configs for each component. The list under `default` applies to all components.
    - `home` is the place of the metadata store and of the records of runs: a directory, or
      `postgresql://HOST/DB?folder=LOGS`.
    - At most `parallel` steps run at the same time.
    - `context` has settings for all steps. The runner copies it for each step, and sets the step's own fields.
    - If this process has not renewed the lease of a run for `lease_seconds`, another machine may take over the run.
    - `objects` has the data of Secrets and ConfigMaps for steps that run on this machine.
    """

    def __init__(
        self,
        launchers: Sequence[type[BaseComponentLauncher]] = ON_DOCKER,
        platform_configs: Mapping[str, Sequence[PlatformConfig]] | None = None,
        *,
        home: Path | str = DEFAULT_HOME,
        parallel: int = 4,
        context: LaunchContext | None = None,
        listener: Listener | None = None,
        lease_seconds: float = LEASE_SECONDS,
        objects: ObjectData | None = None,
    ) -> None:
        """Raises ComponentError if configs are invalid."""
        super().__init__(launchers, platform_configs)
        self._objects = objects or {}
        self._place = home
        self._listener = listener or Listener()
        self._context = dataclasses.replace(context or LaunchContext(), tell=partial(self._listener.tell, ""))
        self._lease_seconds = lease_seconds
        self._parallel = max(1, parallel)
        self._lock = threading.Lock()  # guards _running, and prevents new steps after a cancellation
        self._running: dict[str, BaseComponentLauncher] = {}
        self._cancelled = StopSignal()

    def cancel(self) -> None:
        """Stop the running containers gracefully, and start no more steps.

        `run` then raises PipelineCancelled. The call does not block.
        """
        with self._lock:
            self._cancelled.set()
            running = list(self._running.values())
        for launcher in running:
            launcher.cancel()

    def run(
        self, pipeline: Pipeline | Graph, *, resume: str = "", run_id: str = "", **origin: Unpack[RunOrigin]
    ) -> PipelineResult:
        """Start a new run, or resume the run `resume` (an id, or `latest`); return the outcome if the run succeeds.

        With `run_id`, resume the run with this id, or start it if it does not exist: a pod that restarts after a crash
        can always make the same call. `source`, `parameters` and `place` are recorded for a new run. Raises
        ComponentError before the first step starts, if a step can't be launched or the run can't be resumed. Raises
        RunInProgress if another runner owns the run. Also raises PipelineFailed, PipelineCancelled and StoreError.
        """
        graph = absolute_graph(pipeline)
        return self._run(graph, self.infos_of(graph, "RUN"), resume=resume, run_id=run_id, **origin)

    def _run(
        self,
        pipeline: Graph,
        component_launcher_infos: Mapping[str, ComponentLaunchInfo],
        *,
        resume: str = "",
        run_id: str = "",
        **origin: Unpack[RunOrigin],
    ) -> PipelineResult:
        graph, choose = pipeline, partial(self._chosen, component_launcher_infos)
        new = _new_run(graph, run_id or None, self._context, origin)
        with closing(Home(self._place)) as home, home.store() as store, ExitStack() as stack:
            if store.run(run_id) is not None:  # for an empty id, `run` returns None
                resume = run_id
            run = _resumed_run(home, store, resume, new) if resume else new
            for step in graph.steps:  # all of them, before the first step starts
                choose(graph, step, "RUN", self._context).check()
            home.logs.check()
            for option, steps in self._without_effect(component_launcher_infos, graph).items():
                self._listener.tell("", f"{option} has no effect on this machine: {', '.join(steps)}")
            ownership = self._own(stack, home, store, run)
            # The wait for the lease is over. Another runner may have changed the run meanwhile: read it again.
            run = msgspec.structs.replace(store.run(run.id) or run, term=ownership.term)
            parts = RunParts(home, store, graph, run, ownership, self._context, self._listener, choose)
            parts.record()  # the store has the new term from now on: it refuses writes of an earlier runner
            unclear = stop_dead_runs(home, store, self._context, but=run.id)
            with on_signals(self.cancel):
                views, launches = self._run_steps(parts)
            if unclear:  # leases of dead runners on other machines may have expired meanwhile
                stop_dead_runs(home, store, self._context, but=run.id)
            ownership.check()
            return self._conclude(parts, launches, views)

    def _run_steps(self, parts: RunParts) -> tuple[dict[str, StepView], dict[str, StepLaunch]]:
        """Run the steps until all of them have ended; return the final state of each step, and the launches.

        When the items of a loop become known, the steps for its iterations are added to the record of the run.
        """
        progress = RunSteps(parts)
        launches: dict[str, StepLaunch] = {}
        running: dict[Future[StepView], StepLaunch] = {}
        with ThreadPoolExecutor(self._parallel, thread_name_prefix="step") as pool:
            while True:
                unlaunched = False
                for step in progress.startable():
                    if len(running) >= self._parallel:
                        break
                    try:
                        launch = launches[step.name] = StepLaunch(parts, step, progress.skipped)
                    except ComponentError as error:  # a setting that is known only now is not valid
                        progress.fail(step, str(error))
                        unlaunched = True
                        continue
                    if not self._admit(launch):
                        break
                    progress.see(launch.view)
                    running[pool.submit(launch.run)] = launch
                if running:
                    ended = next(as_completed(running))
                    launch = running.pop(ended)
                    with self._lock:
                        del self._running[launch.name]
                    progress.see(ended.result())
                elif self._cancelled.is_set() or not (unlaunched or progress.skip_stuck()):
                    break
        progress.skip_rest()
        return progress.views, launches

    def _admit(self, launch: StepLaunch) -> bool:
        """Register a step that starts, so that `cancel` can stop it. Return False if no step may start any more."""
        with self._lock:
            if not self._cancelled.is_set():
                self._running[launch.name] = launch.launcher
            return not self._cancelled.is_set()

    def _give_up(self, home: Home) -> None:
        home.logs.abandon()
        self.cancel()

    def _own(self, stack: ExitStack, home: Home, store: MetadataStore, run: RunRecord) -> RunLease:
        lock = home.lock(
            store,
            run.id,
            self._context,
            wait=True,
            stop=self._cancelled,
            seconds=self._lease_seconds,
            when_lost=partial(self._give_up, home),
        )
        try:
            return stack.enter_context(lock)
        except RunInProgress as error:
            if not self._cancelled.is_set():
                raise
            result = PipelineResult(run.id, run.pipeline, "interrupted", {}, {}, f"while it waited: {error}")
            raise PipelineCancelled(result) from None

    def run_step(
        self, pipeline: Pipeline | Graph, step: str, *, run_id: str, orchestrator: str, **origin: Unpack[RunOrigin]
    ) -> StepView:
        """Launch one step of a run, or resume the step, for an `orchestrator` (`argo`, `airflow`).

        The orchestrator determines the order and the retries. At the same time, other processes may launch other steps
        of the run. The first of these processes records the new run, and `finish_run` ends it. Return the outcome of
        the step, also if the step has failed. Raises ComponentError before the step starts, if the step can't be
        launched, or if an orchestrator can't run the pipeline (`check_fixed`). Raises RunInProgress if another process
        launches this step. Also raises StoreError.
        """
        graph = absolute_graph(pipeline)
        origin["place"] = {**(origin.get("place") or {}), ORCHESTRATOR: orchestrator}
        new = _new_run(graph, run_id, self._context, origin)
        check_fixed(graph)
        if step not in (steps := {candidate.name: candidate for candidate in graph.steps}):
            raise ComponentError(f"pipeline {graph.name} has no step {step!r}; its steps are {', '.join(steps)}")
        with closing(Home(self._place)) as home, ExitStack() as stack:
            home.check_sharing()
            home.logs.check()
            store = stack.enter_context(home.store())
            lost = partial(self._give_up, home)
            lock = home.lock(store, run_id, self._context, step=step, wait=True, when_lost=lost)
            ownership = stack.enter_context(lock)
            begun = store.run(run_id)
            run = new if begun is None else _resumed_run(home, store, run_id, new)
            run = msgspec.structs.replace(run, term=run.lease.term, step_terms={step: ownership.term})
            choose = partial(self._chosen, self.infos_of(graph, "RUN"))
            parts = RunParts(home, store, graph, run, ownership, self._context, self._listener, choose)
            launch = StepLaunch(parts, steps[step])
            launch.launcher.check()
            if begun is None or begun.state != "running":
                parts.record()
            with on_signals(self.cancel):
                view = StepView(step, StepState.CANCELLED)
                if self._admit(launch):
                    self._listener.step(launch.view)
                    view = launch.run()
            self._listener.step(view)
            return view

    def check(self, pipeline: Pipeline | Graph) -> dict[str, str]:
        """Return a text for each step: the object or command that a run would launch (`dry_run`).

        Raises ComponentError if a step can't be launched. The call makes no request.
        """
        graph = absolute_graph(pipeline)
        infos = self.infos_of(graph, "RUN")
        return {step.name: self._chosen(infos, graph, step, "RUN", self._context).dry_run() for step in graph.steps}

    def _chosen(
        self,
        infos: Mapping[str, ComponentLaunchInfo],
        graph: Graph,
        step: Step,
        run_id: str,
        context: LaunchContext,
    ) -> BaseComponentLauncher:
        """Return the launcher of a step.

        An iteration of a loop (`train.0`) gets the launcher that was chosen for its pattern (`train`).
        """
        info = msgspec.structs.replace(infos[step.pattern or step.name], component=graph.component(step, run_id))
        if is_object_url(graph.root):
            context = dataclasses.replace(context, objects=graph.root)
        machine = MachineShare(self._objects, context.work_dir, {"metadata.name": step.name, "metadata.uid": run_id})
        launcher = with_root(with_settings(info, step, machine), graph.root).make(context)
        check_records_are_hidden(step.name, launcher, str(self._place))
        check_report_is_new(step, launcher, graph.root)
        return launcher

    def _without_effect(self, infos: Mapping[str, ComponentLaunchInfo], graph: Graph) -> dict[str, list[str]]:
        """Return the Kubernetes options that the chosen launchers ignore, with the steps that have each option."""
        steps_by_option: dict[str, list[str]] = {}
        for step in graph.steps:
            for option in without_effect(step.settings, infos[step.name].launcher, step.executor_spec):
                steps_by_option.setdefault(option, []).append(step.name)
        return steps_by_option

    def _conclude(
        self, parts: RunParts, launches: Mapping[str, StepLaunch], views: Mapping[str, StepView]
    ) -> PipelineResult:
        cancelled = self._cancelled.is_set()
        unfinished = [name for name, launch in launches.items() if launch.unfinished]
        state, message = outcome_of(views, cancelled=cancelled, unfinished=unfinished)
        parts.record(state=state, message=message, ended=self._context.clock.now())
        parts.home.remove_left(parts.store)
        results = {name: launch.result for name, launch in launches.items() if launch.result is not None}
        result = PipelineResult(parts.run.id, parts.run.pipeline, state, dict(views), results, message)
        if state == "succeeded":
            return result
        raise PipelineCancelled(result) if cancelled else PipelineFailed(result)


def _new_run(graph: Graph, run_id: str | None, context: LaunchContext, origin: RunOrigin) -> RunRecord:
    """Return the record of a new run. If `run_id` is None, the run gets a new id.

    Raises ComponentError if `run_id` is not a valid id.
    """
    now = context.clock.now()
    if run_id is not None and not is_run_id(run_id):
        raise ComponentError(
            f"{run_id!r} is not a valid id of a run: use at most 100 letters, digits, '-', '_' and '.', with a letter "
            "or digit at the beginning and at the end"
        )
    return RunRecord(
        run_id or new_run_id(context.clock, context.random),
        graph.name,
        "running",
        graph.root,
        graph.fingerprint(),
        now,
        steps={step.name: tuple(sorted(step.after)) for step in graph.steps},
        **msgspec.to_builtins({name: value for name, value in origin.items() if value is not None}, enc_hook=str),
    )


def _resumed_run(home: Home, store: MetadataStore, wanted: str, new: RunRecord) -> RunRecord:
    """Return the record of the run `wanted`, which will be resumed.

    Raises ComponentError if the pipeline or the parameters in `new` differ from the recorded run, or if the recorded
    run belongs to another orchestrator.
    """
    run = home.find(store, wanted, new.pipeline)
    if run.place.get(ORCHESTRATOR) != new.place.get(ORCHESTRATOR):
        owner = run.place.get(ORCHESTRATOR) or "a runner"
        raise ComponentError(f"run {run.id} belongs to {owner}: only {owner} can continue this run")
    if (run.pipeline, run.fingerprint) != (new.pipeline, new.fingerprint):
        raise ComponentError(
            f"run {run.id} had another pipeline or other parameters: continue it with its own pipeline and "
            "parameters, or start a new run, which reuses the outputs of equal steps"
        )
    return run
