"""One run: one contestant, one load, one fresh control plane; figures out, and what was wrong with the outcome."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hack.bench.api_profile import ApiServerProfile, ProfileError
from hack.bench.churn import churn, victims_of
from hack.bench.contestants import Contestant, OperatorProcess, progress_flags
from hack.bench.environment import Environment, environment
from hack.bench.floor import play_floor, submit
from hack.bench.loads import NAMESPACE, Load
from hack.bench.measure import Snapshot, median_and_p99, wait_quiet, wait_silent
from hack.bench.paths import pods_path, services_path, tfjobs_path
from hack.bench.raw_http import RequestFailed
from hack.bench.reporters import Reporters
from hack.bench.verify import Found, verify
from hack.bench.watcher import Watcher, all_reported, all_running
from hack.controlplane import ControlPlaneError
from hack.gobuild import BuildError

_BASE_TIMEOUT = 60.0
_SECONDS_PER_POD = 0.5
"""The slowest contestant, with 20 requests per second, needs 0.2 to 0.4 s per pod."""
_QUIET_TIMEOUT = 60.0
_API_SERVER_AT_REST = 0.15  # of a core: it renews, collects and compacts all the time
_MIB = 2**20
_RECORDS = "update tfjobs/status"  # of an idle job, only lastReconcileTime is written
_MANY_PODS = 5000  # whose comparison with what they must be takes seconds
EXEMPT = "-exempt"
"""Ends the name of a load in results whose contestant was exempt from priority and fairness."""

Say = Callable[[str], None]


@dataclass
class Result:
    """The figures of one run, by name; see `report` for their units. With `complaints` they count for nothing."""

    load: str
    title: str
    jobs: int
    contestant: str
    repetition: int
    figures: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    load_average: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As it is written to the JSON file."""
        return asdict(self)


def run(
    contestant: Contestant,
    load: Load,
    repetition: int,
    say: Say,
    *,
    exempt: bool = False,
    profiles: Path | None = None,
) -> Result:
    """Measure. Problems on the way are among the complaints, so that the other figures can still be measured.

    `exempt`: without priority and fairness for the contestant. `profiles` is a folder for the API server's CPU profile
    of the time in which all jobs come to run, or to their end.
    """
    load = replace(load, per_job=contestant.per_job)
    name, title = (
        (f"{load.name}{EXEMPT}", f"{load.title}, no priority and fairness") if exempt else (load.name, load.title)
    )
    result = Result(name, title, load.jobs, contestant.name, repetition, load_average=os.getloadavg()[0])
    try:
        with environment(exempt=exempt) as bench_environment:
            bench_environment.install_crd(contestant.crd())
            watcher = Watcher(bench_environment.plane, bench_environment.client, say)
            watcher.start()
            process = contestant.process(bench_environment, progress_flags() if load.reports_seconds else ())
            try:
                if process is not None:
                    process.start()
                profile = _profile(bench_environment, result, profiles) if profiles else None
                _Run(bench_environment, load, watcher, process, result, say, profile).play()
            finally:
                if process is not None:
                    process.stop()
                watcher.stop()
    except (OSError, RuntimeError, TimeoutError, RequestFailed, ControlPlaneError) as error:
        result.complaints.append(f"{type(error).__name__}: {error}")
    return result


def _profile(bench_environment: Environment, result: Result, folder: Path) -> ApiServerProfile:
    name = f"{result.load}-{result.contestant}-{result.repetition}.pb.gz"
    return ApiServerProfile(bench_environment.client, folder / name, bench_environment.folder / "profile")


class _Run:
    """The phases of one run."""

    def __init__(
        self,
        bench_environment: Environment,
        load: Load,
        watcher: Watcher,
        process: OperatorProcess | None,
        result: Result,
        say: Say,
        profile: ApiServerProfile | None,
    ) -> None:
        self._environment = bench_environment
        self._load = load
        self._watcher = watcher
        self._process = process
        self._result = result
        self._figures = result.figures
        self._say = say
        self._profile = profile
        self._timeout = load.limit_seconds or _BASE_TIMEOUT + _SECONDS_PER_POD * load.pods

    def play(self) -> None:
        """Every phase in turn. Raises TimeoutError, RequestFailed, OSError."""
        if self._process is not None:
            wait_quiet([self._process.pid], _QUIET_TIMEOUT)
        # A new API server has much to do for its first seconds; a floor that shares them would be none.
        wait_quiet([self._environment.plane.pids["kube-apiserver"]], _QUIET_TIMEOUT, _API_SERVER_AT_REST)
        before = self._snapshot()
        if self._profile is not None:
            self._profile.start()
        began = time.monotonic()
        if self._process is None:
            play_floor(self._environment, self._load, self._watcher, self._timeout)
        else:
            submit(self._environment, self._load)
        self._figures["submitted_s"] = time.monotonic() - began
        if self._load.finishes:
            self._until_done(began)
        else:
            self._until_running(began)
        self._await_rest()
        self._account(before, self._snapshot())
        self._end_profile()
        if self._load.churn_rounds and self._process is not None:
            self._churn()
        self._verify()
        if self._process is not None and not self._result.complaints:
            if self._load.idle_seconds:
                self._idle()
            if self._load.restarts:
                self._restart()
            if self._load.reports_seconds:
                self._report()

    def _end_profile(self) -> None:
        if self._profile is not None:
            try:
                self._say(f"the API server's CPU profile: {self._profile.stop()}")
            except (ProfileError, BuildError) as error:
                self._say(f"no profile: {error}")

    def _until_running(self, began: float) -> None:
        self._watcher.wait("all jobs and pods run", all_running(self._load), self._timeout)
        with self._watcher.lock:
            observed = self._watcher.seen
            times = [moment - observed.job_created[name] for name, moment in observed.job_running.items()]
            self._figures["created_s"] = max(observed.pod_created.values()) - began
            self._figures["running_s"] = max(*observed.job_running.values(), *observed.pod_running.values()) - began
        if len(times) > 1:
            self._figures["p50_s"], self._figures["p99_s"] = median_and_p99(times)
        self._watcher.wait("all statuses tell of all pods", all_reported(self._load), self._timeout)
        with self._watcher.lock:
            self._figures["reported_s"] = max(self._watcher.seen.active_since.values()) - began

    def _until_done(self, began: float) -> None:
        load = self._load
        self._watcher.wait("all jobs end", lambda observed: len(observed.job_ended) == load.jobs, self._timeout)
        kept = load.jobs * load.workers
        self._watcher.wait("what still ran is cleaned up", lambda observed: len(observed.phases) == kept, self._timeout)
        with self._watcher.lock:
            self._figures["done_s"] = max(self._watcher.seen.job_ended.values()) - began

    def _await_rest(self) -> None:
        """Wait for the operator's work after the last job runs: it belongs to the job, too."""
        if self._process is not None:
            wait_quiet([self._process.pid], _QUIET_TIMEOUT)
            wait_silent(lambda: self._snapshot().total_calls, self._timeout)

    def _account(self, before: Snapshot, after: Snapshot) -> None:
        jobs = self._load.jobs
        if self._process is not None:
            self._figures["cpu_ms"] = (after.operator.cpu - before.operator.cpu) * 1000 / jobs
            self._figures["rss_mib"] = after.operator.rss / _MIB
            self._figures["peak_mib"] = after.operator.peak_rss / _MIB
        self._figures["calls"] = (after.total_calls - before.total_calls) / jobs
        self._figures["api_cpu_ms"] = (after.api_server.cpu - before.api_server.cpu) * 1000 / jobs
        self._result.calls = {
            call: count - before.calls.get(call, 0)
            for call, count in sorted(after.calls.items())
            if count > before.calls.get(call, 0)
        }

    def _idle(self) -> None:
        self._say(f"idle for {self._load.idle_seconds:.0f} s")
        before = self._snapshot()
        time.sleep(self._load.idle_seconds)
        after = self._snapshot()
        self._figures["idle_calls"] = after.total_calls - before.total_calls
        self._figures["idle_records"] = after.calls.get(_RECORDS, 0) - before.calls.get(_RECORDS, 0)
        self._figures["idle_cpu_s"] = after.operator.cpu - before.operator.cpu
        self._figures["idle_peak_mib"] = after.operator.peak_rss / _MIB

    def _report(self) -> None:
        """As long without reports as with them; then each job's last report must come into its status."""
        assert self._process is not None
        seconds = self._load.reports_seconds
        reporters = Reporters(self._environment, self._load)
        wait_quiet([self._process.pid], _QUIET_TIMEOUT)
        self._say(f"no reports for {seconds:.0f} s")
        before = self._snapshot()
        time.sleep(seconds)
        between = self._snapshot()
        self._say(f"reports for {seconds:.0f} s")
        last, failures = reporters.report(seconds)
        after = self._snapshot()
        began = time.monotonic()
        late = self._unwritten(last)
        while late and time.monotonic() < began + self._timeout:
            time.sleep(0.2)
            late = self._unwritten(last)
        self._figures["reports_last_s"] = time.monotonic() - began
        for name, start, end in (("no_reports", before, between), ("reports", between, after)):
            spent = end.at - start.at
            self._figures[f"{name}_writes"] = (_status_writes(end) - _status_writes(start)) / spent
            self._figures[f"{name}_cpu"] = (end.operator.cpu - start.operator.cpu) / spent * 100
            self._figures[f"{name}_api_cpu"] = (end.api_server.cpu - start.api_server.cpu) / spent * 100
            self._figures[f"{name}_rss_mib"] = end.operator.rss / _MIB
        if failures:
            self._result.complaints.append(f"{failures} reports were not taken")
        self._result.complaints += [f"TFJob {job}: its last report is not in its status" for job in late[:20]]

    def _unwritten(self, last: Mapping[str, int]) -> list[str]:
        steps = {
            job["metadata"]["name"]: (job.get("status", {}).get("progress") or {}).get("step", 0)
            for job in self._all(tfjobs_path)
        }
        return [job for job, step in last.items() if steps.get(job) != step]

    def _restart(self) -> None:
        assert self._process is not None
        self._say("starting it anew beside the running jobs")
        self._process.stop()
        began = time.monotonic()
        before = self._snapshot(operator=False)
        self._figures["start_ready_s"] = self._process.start()
        self._figures["start_quiet_s"] = wait_quiet([self._process.pid], _QUIET_TIMEOUT + self._timeout) - began
        after = self._snapshot()
        self._figures["start_cpu_s"] = after.operator.cpu
        self._figures["start_peak_mib"] = after.operator.peak_rss / _MIB
        self._figures["start_calls"] = after.total_calls - before.total_calls
        self._verify()

    def _churn(self) -> None:
        before = self._snapshot()
        self._figures.update(churn(self._environment, self._load, self._watcher, self._timeout, self._say))
        self._await_rest()
        after = self._snapshot()
        killed = self._load.churn_rounds * victims_of(self._load)
        self._figures["churn_calls"] = (after.total_calls - before.total_calls) / killed
        self._figures["churn_cpu_ms"] = (after.operator.cpu - before.operator.cpu) * 1000 / killed

    def _verify(self) -> None:
        with self._watcher.lock:
            pods_made = dict(self._watcher.seen.pods_made)
        if self._load.pods >= _MANY_PODS:
            self._say(f"looking at {self._load.pods} pods and their services")
        objects = Found(self._all(tfjobs_path), self._all(pods_path), self._all(services_path), pods_made)
        self._result.complaints += verify(self._load, objects)

    def _all(self, path_of: Callable[[str], str]) -> Iterator[dict[str, Any]]:
        return self._environment.each(path_of(NAMESPACE))

    def _snapshot(self, *, operator: bool = True) -> Snapshot:
        return self._environment.snapshot([self._process.pid] if operator and self._process is not None else [])


def _status_writes(snapshot: Snapshot) -> int:
    return sum(count for call, count in snapshot.calls.items() if "tfjobs/status" in call)
