"""Runs one pod in its own thread, from start to end: volumes, init containers, containers, restarts, and the end.

Only this thread changes the data of the pod. Other threads only send messages (`pod_messages`). So only the messages
need a lock, and each status that the worker reports is consistent.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Sequence

from tfoperator.kube.views.objects import timestamp
from tfoperator.kube.views.pod_status import ContainerStateTerminated, ContainerStateWaiting
from tfoperator.local.gpus.manager import NotEnoughGpus
from tfoperator.local.node.container_launcher import ContainerLauncher, NodeParts
from tfoperator.local.node.container_record import ContainerRecord, restarts_after
from tfoperator.local.node.expansion import ContainerConfigError
from tfoperator.local.node.pod_messages import PodMessages
from tfoperator.local.node.pod_status import PodReporter
from tfoperator.local.runtime.log_files import LogFile
from tfoperator.local.runtime.protocol import LaunchError, LocalPod, StartLater

logger = logging.getLogger(__name__)

CONFIG_RETRY = 1.0
"""Seconds until a missing ConfigMap or Secret is requested again."""
SCHEDULING_RETRY = 1.0
"""Seconds until the agent tries again to schedule a pod for which not enough GPUs were free."""
DEFAULT_GRACE = 30.0
"""The default of Kubernetes for terminationGracePeriodSeconds."""
KILL_TIMEOUT = 10.0
"""Seconds to wait until a process ends after SIGKILL. Only a process that hangs in the kernel takes longer."""


class PodWorker:
    """Runs one pod.

    Thread-safe. Call `start()` once, and after that `messages` and the other methods from any thread.
    """

    def __init__(self, pod: LocalPod, parts: NodeParts) -> None:
        self.pod = pod
        self._parts = parts
        self._clock = parts.clock
        self._launcher = ContainerLauncher(pod, parts)
        self._reporter = PodReporter(pod, parts.api, parts.clock)
        seconds = pod.spec.termination_grace_period_seconds
        self._grace = DEFAULT_GRACE if seconds is None else float(seconds)
        self._init = [
            ContainerRecord(container, sidecar=container.restart_policy == "Always")
            for container in pod.spec.init_containers or ()
        ]
        self._main = [ContainerRecord(container) for container in pod.spec.containers]
        self.messages = PodMessages(parts.clock, pod.spec.active_deadline_seconds, self._grace, pod.metadata.generation)
        """The messages from other threads."""
        self._expired = False  # whether the pod was ended by its activeDeadlineSeconds
        self._terminating = False  # whether running containers are being stopped, and not started again
        self._thread = threading.Thread(target=self._run, name=f"pod-{pod.metadata.key}", daemon=True)

    def start(self) -> None:
        """Start the worker's thread."""
        self._thread.start()

    def take_stacks(self, container: str = "") -> dict[str, str]:
        """Return the stacks of the Python threads of the pod's running containers, by the container's name.

        If `container` is set, return only its stacks. The stacks are also added to a file in the folder of the log. The
        call blocks for some seconds if a process does not respond. Any thread may call it.
        """
        stacks = {}
        for record in (*self._init, *self._main):
            running, name = record.running, record.container.name
            if running is None or container not in ("", name):
                continue
            stacks[name] = running.process.stacks()
            running.log.keep_stacks(timestamp(self._clock.now()), stacks[name])
        return stacks

    def join(self, timeout: float) -> bool:
        """Wait until the worker ends. Return whether it has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # The methods below run in the worker's own thread.

    def _run(self) -> None:
        try:
            self._live()
        except Exception as error:
            logger.exception("pod %s: its thread has failed", self.pod.metadata.key)
            self._give_up(error)
        finally:
            self._clean_up()

    def _give_up(self, error: Exception) -> None:
        """End a pod that can't run (for example because its log can't be written).

        The report is necessary because the operator and users wait for the end of the pod.
        """
        for record in (*self._init, *self._main):
            if record.process is not None:
                record.process.kill()
        what = f"the node agent can't run this pod: {error}"
        self._reporter.warn_once("Failed", f"Error: {what}")
        self._report("Failed", "NodeAgentError", what)

    def _live(self) -> None:
        if not self._schedule() or not self._parts.api.bind(self.pod):
            return
        self.messages.begin()
        self._report("Pending")
        policy = self.pod.spec.restart_policy
        for record in self._init:
            self._supervise([record], "Never" if policy == "Never" else "OnFailure", "Pending")
            if self.messages.ending or not record.initialised:
                break
        else:
            self._supervise(self._main, policy, "Running")
        self._terminate()
        self._report_end()

    def _schedule(self) -> bool:
        """Wait until the pod has the GPUs that it requests. Return False if the pod is stopped before."""
        while True:
            try:
                self._parts.gpus.acquire(self.pod)
            except NotEnoughGpus as error:
                self._reporter.unschedulable(str(error), error.details)
            else:
                return True
            # Another control plane of this machine may release GPUs, too, and no event reports this.
            if self.messages.wait_for_stop(SCHEDULING_RETRY):
                return False

    def _supervise(self, group: Sequence[ContainerRecord], policy: str, phase: str) -> None:
        """Start the containers of a group. Restart them by the restart policy, until all have ended.

        For a sidecar in the group, wait only until it has started. Sidecars that were started earlier are also
        restarted.
        """
        sidecars = [record for record in self._init if record.sidecar and record.initialised]
        attended = [*sidecars, *group]
        while not self.messages.ending:
            now = self._clock.monotonic()
            for record in attended:
                if record.next_start is not None and record.next_start <= now:
                    self._start(record, policy)
            if all(record.initialised if record.sidecar else record.over for record in group):
                return
            begun = any(record.started_once for record in group)
            self._report(phase if begun else "Pending")
            due = [record.next_start for record in attended if record.next_start is not None]
            if self._launcher.renewal is not None:
                if self._launcher.renewal <= now:
                    self._launcher.renew_tokens()
                due.append(self._launcher.renewal)
            self.messages.wait(due)
            self._take_exits(policy)

    def _start(self, record: ContainerRecord, policy: str) -> None:
        try:
            ip = self._launcher.address(record.container)
            self._reporter.pod_ip = ip
            prepared = self._launcher.prepare(record.container, ip)
        except StartLater as error:
            record.wait(error.reason, str(error), self._clock.monotonic() + error.delay)
            if error.event:
                self._reporter.warn_once(error.event, str(error))
            return
        except ContainerConfigError as error:
            record.wait("CreateContainerConfigError", str(error), self._clock.monotonic() + CONFIG_RETRY)
            self._reporter.warn_once("Failed", f"Error: {error}")
            return
        except (LaunchError, OSError) as error:
            self._failed_to_start(record, self._begin_attempt(record), error, policy)
            return
        log = self._begin_attempt(record)
        try:
            exited = functools.partial(self.messages.add_exit, record)
            process = self._launcher.launch(record, prepared, log, exited, self._reporter.warn_once)
        except LaunchError as error:
            self._failed_to_start(record, log, error, policy)
            return
        record.run(process, self._clock.now(), self._clock.monotonic())

    def _begin_attempt(self, record: ContainerRecord) -> LogFile:
        meta = self.pod.metadata
        log = self._parts.logs.open(meta.namespace, meta.name, record.container.name, owner=meta.uid)
        record.begin(log)
        return log

    def _failed_to_start(self, record: ContainerRecord, log: LogFile, error: Exception, policy: str) -> None:
        launch_error = error if isinstance(error, LaunchError) else LaunchError(str(error))
        log.append(f"tfoperator: {launch_error}")
        self._reporter.warn_once("Failed", f"Error: {launch_error}")
        self._ended(record, launch_error.exit_code, policy, reason="StartError", message=str(launch_error))

    def _ended(self, record: ContainerRecord, code: int, policy: str, *, reason: str = "", message: str = "") -> None:
        record.end(code, self._clock.now(), reason=reason, message=message)
        if record.log is not None:
            stopped = self.messages.ending or self._terminating
            record.log.close(code, stopped=stopped, reason=reason, ended=self._clock.now())
        restart = record.sidecar or restarts_after(record.container, policy, code)
        if not restart or self.messages.ending or self._terminating:
            return
        delay = record.restart(self._clock.monotonic())
        if delay > 0:
            what = f"back-off {delay:g}s restarting failed container {record.container.name} (exit code {code})"
            record.state = ContainerStateWaiting("CrashLoopBackOff", what)
            self._parts.api.warn(self.pod, "BackOff", what[0].upper() + what[1:])

    def _take_exits(self, policy: str) -> None:
        for record, code, reason in self.messages.take_exits():
            log = record.log.path if record.log is not None else None
            message = record.message.read(code, log) if record.message is not None else ""
            self._ended(record, code, policy, reason=reason, message=message)

    def _terminate(self) -> None:
        """Stop all containers: SIGTERM, the grace period, SIGKILL.

        Sidecars are stopped after the other containers, the last sidecar first.
        """
        self._terminating = True
        self._expired = self.messages.past_limit and not all(record.over for record in self._main)
        running = [record for record in (*self._init, *self._main) if record.process is not None]
        if not running:
            return
        grace_end = self.messages.stop_at
        if grace_end is None:  # the pod's deadline, not a deletion
            grace_end = self._clock.monotonic() + self._grace
        self._end([record for record in running if not record.sidecar], grace_end)
        for record in reversed(running):
            if record.sidecar:
                self._end([record], grace_end)

    def _end(self, running: Sequence[ContainerRecord], grace_end: float) -> None:
        for record in running:
            if record.process is not None:
                record.process.terminate()
        self._await_ends(running, grace_end)
        for record in running:
            if record.process is not None:
                record.process.kill()
        self._await_ends(running, self._clock.monotonic() + KILL_TIMEOUT, shorten=False)

    def _await_ends(self, records: Sequence[ContainerRecord], deadline: float, *, shorten: bool = True) -> None:
        while any(record.process is not None for record in records):
            if not self.messages.wait_for_exit(deadline, shorten=shorten):
                return
            self._take_exits("Never")

    def _report_end(self) -> None:
        deciding = [record for record in (*self._init, *self._main) if not record.sidecar]
        failed = [r for r in deciding if isinstance(r.state, ContainerStateTerminated) and r.state.exit_code != 0]
        over = all(isinstance(record.state, ContainerStateTerminated) for record in self._main)
        if self._expired:
            self._report("Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        elif failed or not over:
            self._report("Failed")
        else:
            self._report("Succeeded")

    def _report(self, phase: str, reason: str = "", message: str = "") -> None:
        if not self.messages.abandoned:
            self._reporter.generation = self.messages.take_generation()
            self._reporter.status(phase, self._init, self._main, reason, message)

    def _clean_up(self) -> None:
        for record in (*self._init, *self._main):
            if record.log is not None:
                record.log.close()
        self._parts.runtime.release_pod(self.pod)
        self._parts.gpus.release(self.pod)
        self._parts.volumes.remove(self.pod)
        self.messages.wait_for_removal()
        if self.messages.finish():
            self._parts.api.finalise(self.pod)
