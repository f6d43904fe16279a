import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.nvml import FakeNvml, uuids
from tests.unit.local.node.pods import container, manifest, view
from tfoperator.kube.views.pod_spec import Container
from tfoperator.local.gpus.manager import GpuManager
from tfoperator.local.gpus.nvml import Nvml
from tfoperator.local.node.container_launcher import NodeParts
from tfoperator.local.node.expansion import ObjectData
from tfoperator.local.node.log_store import LogStore
from tfoperator.local.node.pod_messages import SHORTEST_TERMINATION
from tfoperator.local.node.pod_worker import PodWorker
from tfoperator.local.node.volumes import VolumeManager
from tfoperator.local.runtime.log_files import LogRequest
from tfoperator.local.runtime.protocol import ContainerIdentity, ContainerStart, LaunchError, LocalPod, StartLater


class FakeProcess:
    """A container that ends when the test ends it, or when it is killed."""

    def __init__(self, run: ContainerStart, on_exit: Any) -> None:
        self.name = run.container.name
        self.run = run
        self.identity = ContainerIdentity(f"fake://{run.container.name}")
        self.signals: list[str] = []
        self.obedient = True
        self._on_exit = on_exit

    def exit(self, code: int, reason: str = "") -> None:
        threading.Thread(target=self._on_exit, args=(code, reason)).start()

    def terminate(self) -> None:
        self.signals.append("TERM")
        if self.obedient:
            self.exit(143)

    def kill(self) -> None:
        self.signals.append("KILL")
        self.exit(137)


class FakeRuntime:
    def __init__(self) -> None:
        self.processes: list[FakeProcess] = []
        self.refuse: LaunchError | None = None
        self.released: list[str] = []
        self.not_yet: list[StartLater] = []

    def prepare(self, pod: LocalPod, container: Container, services: Any) -> str:
        if self.not_yet:
            raise self.not_yet.pop(0)
        return "10.1.2.3"

    def reserve(self, pod: LocalPod, mounts: Any) -> None:
        pass

    def launch(self, run: ContainerStart, on_exit: Any, warn: Any) -> FakeProcess:
        if self.refuse:
            raise self.refuse
        self.processes.append(FakeProcess(run, on_exit))
        return self.processes[-1]

    def release_pod(self, pod: LocalPod) -> None:
        self.released.append(pod.metadata.name)


class FakePodApi:
    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.finalised: list[str] = []
        self.events: list[tuple[str, str]] = []
        self.data: dict[tuple[str, str], Any] = {}
        self.binds = True

    def bind(self, pod: LocalPod) -> bool:
        return self.binds

    def report(self, pod: LocalPod, status: dict[str, Any]) -> None:
        self.reports.append(status)

    def finalise(self, pod: LocalPod) -> None:
        self.finalised.append(pod.metadata.name)

    def sources(self, namespace: str) -> Any:
        return lambda kind, name: ObjectData(self.data[kind, name]) if (kind, name) in self.data else None

    def services(self) -> frozenset[tuple[str, str]]:
        return frozenset()

    def tokens(self, pod: LocalPod) -> Any:
        return lambda audience, seconds: f"{pod.metadata.name} {audience} {seconds}"

    def services_of(self, pod: LocalPod) -> tuple[str, ...]:
        return ()

    def warn(self, pod: LocalPod, reason: str, message: str) -> None:
        self.events.append((reason, message))


class Bench:
    def __init__(self, root: Path) -> None:
        self.clock = FakeClock()
        self.runtime = FakeRuntime()
        self.api = FakePodApi()
        self.logs = LogStore(root / "logs", clock=self.clock)
        self.volumes = VolumeManager(root / "volumes")
        self.gpus = GpuManager()
        self.workers: list[PodWorker] = []

    def start(self, *containers: dict[str, Any], **spec: Any) -> PodWorker:
        pod = view(manifest("p", *(containers or (container(command=["x"]),)), **spec))
        api: Any = self.api
        runtime: Any = self.runtime
        parts = NodeParts(api, runtime, self.volumes, self.logs, self.gpus, self.clock, "here")
        worker = PodWorker(pod, parts)
        self.workers.append(worker)
        worker.start()
        return worker

    def start_stubborn(self, **spec: Any) -> tuple[PodWorker, FakeProcess]:
        """A pod that runs, and whose process does not end when it is asked to."""
        worker, process = self.start(**spec), self.process(0)
        process.obedient = False
        self.until("Running")
        return worker, process

    def process(self, index: int) -> FakeProcess:
        eventually(lambda: len(self.runtime.processes) > index, what=f"process {index} starts")
        return self.runtime.processes[index]

    def phase(self) -> str:
        return self.api.reports[-1]["phase"] if self.api.reports else ""

    def state(self, index: int = 0) -> dict[str, Any]:
        return self.api.reports[-1]["containerStatuses"][index] if self.api.reports else {}

    def waiting(self) -> dict[str, Any]:
        return self.state().get("state", {}).get("waiting", {})

    def terminated(self) -> dict[str, Any]:
        return self.state()["state"]["terminated"]

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition that was reported last."""
        conditions = self.api.reports[-1]["conditions"]
        return next(condition for condition in conditions if condition["type"] == kind)

    def waits_for(self, reason: str) -> None:
        eventually(lambda: self.waiting().get("reason") == reason, what=reason)

    def until(self, phase: str) -> None:
        eventually(lambda: self.phase() == phase, what=f"phase {phase}")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for worker in bench.workers:
        worker.messages.abandon()
        assert worker.join(60)


def test_a_pod_runs_and_succeeds(bench: Bench) -> None:
    worker = bench.start()
    process = bench.process(0)
    bench.until("Running")
    status = bench.api.reports[-1]
    assert status["podIP"] == "10.1.2.3"
    assert bench.state()["ready"] is True
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    process.exit(0)
    bench.until("Succeeded")
    assert bench.terminated()["exitCode"] == 0
    assert worker.join(60)
    assert worker.messages.stop() is False
    assert bench.api.finalised == []
    assert bench.runtime.released == ["p"]


@pytest.mark.parametrize(("code", "why", "reason"), [(1, "", "Error"), (137, "OOMKilled", "OOMKilled")])
def test_a_container_that_fails_fails_its_pod_under_never_with_its_last_words_and_the_runtime_says_why(
    bench: Bench, tmp_path: Path, code: int, why: str, reason: str
) -> None:
    file = tmp_path / "said"
    bench.start(container(command=["x"], terminationMessagePath=str(file)))
    process = bench.process(0)
    file.write_text("no data")
    process.exit(code, why)
    bench.until("Failed")
    assert bench.terminated().items() >= {"exitCode": code, "reason": reason, "message": "no data"}.items()
    assert bench.state()["restartCount"] == 0


def test_restarts_wait_longer_each_time_and_are_counted(bench: Bench) -> None:
    bench.start(restartPolicy="OnFailure")
    bench.process(0).exit(1)
    bench.process(1).exit(2)  # the first restart is immediate
    bench.waits_for("CrashLoopBackOff")
    assert bench.state()["restartCount"] == 1
    assert bench.state()["lastState"]["terminated"]["exitCode"] == 2
    bench.clock.pass_time(1.0)
    bench.process(2).exit(3)
    eventually(lambda: bench.state()["lastState"].get("terminated", {}).get("exitCode") == 3)
    bench.clock.pass_time(1.9)
    bench.clock.wait_for_waiters()
    assert len(bench.runtime.processes) == 3
    bench.clock.advance(0.1)
    bench.process(3).exit(0)
    bench.until("Succeeded")
    assert bench.state()["restartCount"] == 3
    assert [log.attempt for log in bench.logs.attempts("ns", "p", "tensorflow")] == [0, 1, 2, 3]
    assert [reason for reason, _ in bench.api.events] == ["BackOff", "BackOff"]


def test_a_long_run_resets_the_backoff(bench: Bench) -> None:
    bench.start(restartPolicy="Always")
    bench.process(0).exit(1)
    bench.process(1)
    bench.clock.advance(601)
    bench.process(1).exit(1)
    bench.process(2)


def test_init_containers_run_one_after_another_before_the_others(bench: Bench) -> None:
    bench.start(initContainers=[container("first", command=["x"]), container("second", command=["x"])])
    assert bench.process(0).name == "first"
    eventually(lambda: bench.api.reports[-1]["initContainerStatuses"][0]["state"].get("running"))
    assert bench.phase() == "Pending"
    bench.process(0).exit(0)
    assert bench.process(1).name == "second"
    bench.process(1).exit(0)
    assert bench.process(2).name == "tensorflow"
    bench.until("Running")


def test_an_init_container_that_fails_under_never_fails_the_pod(bench: Bench) -> None:
    bench.start(initContainers=[container("first", command=["x"])])
    bench.process(0).exit(1)
    bench.until("Failed")
    assert bench.waiting()["reason"] == "PodInitializing"
    assert len(bench.runtime.processes) == 1


def sidecar(name: str) -> dict[str, Any]:
    return container(name, command=["s"], restartPolicy="Always")


def test_sidecars_run_beside_the_others_and_are_stopped_after_them(bench: Bench) -> None:
    inits = [sidecar("first"), container("setup", command=["i"]), sidecar("second")]
    bench.start(initContainers=inits)
    bench.process(1).exit(0)
    main = bench.process(3)
    bench.until("Running")
    assert [process.name for process in bench.runtime.processes] == ["first", "setup", "second", "tensorflow"]
    conditions = {condition["type"]: condition["status"] for condition in bench.api.reports[-1]["conditions"]}
    assert conditions["Initialized"] == conditions["Ready"] == "True"
    assert [status["ready"] for status in bench.api.reports[-1]["initContainerStatuses"]] == [True] * 3
    bench.process(2).obedient = False
    main.exit(0)
    eventually(lambda: bench.process(2).signals == ["TERM"])
    assert bench.process(0).signals == []  # in the opposite order
    bench.process(2).exit(0)
    bench.until("Succeeded")
    assert bench.process(0).signals == ["TERM"]
    assert len(bench.runtime.processes) == 4


def test_a_sidecar_that_ends_is_started_again_whatever_the_pods_policy(bench: Bench) -> None:
    bench.start(initContainers=[sidecar("side")])
    bench.process(1)
    bench.process(0).exit(1)
    bench.process(2).exit(0)
    bench.clock.advance(0)
    eventually(lambda: bench.api.reports[-1]["initContainerStatuses"][0]["restartCount"] >= 1)
    assert bench.phase() == "Running"
    bench.process(1).exit(3)
    bench.until("Failed")


def test_a_sidecar_that_can_not_be_started_holds_the_pod_back(bench: Bench) -> None:
    bench.runtime.refuse = LaunchError("no such program")
    worker = bench.start(initContainers=[sidecar("side")])
    eventually(lambda: any(reason == "BackOff" for reason, _ in bench.api.events))
    assert bench.phase() == "Pending"
    assert worker.messages.stop(0)
    eventually(lambda: bench.api.finalised == ["p"])


def test_a_pod_with_several_containers_ends_when_all_have(bench: Bench) -> None:
    bench.start(container("a", command=["x"]), container("b", command=["x"]))
    bench.process(0).exit(0)
    eventually(lambda: "terminated" in bench.state(0).get("state", {}))
    assert bench.phase() == "Running"
    assert bench.condition("Ready")["status"] == "False"
    bench.process(1).exit(0)
    bench.until("Succeeded")


def test_a_changed_spec_is_reported_by_its_generation(bench: Bench) -> None:
    worker = bench.start()
    bench.until("Running")
    worker.messages.change_spec(2, None)
    eventually(lambda: bench.api.reports[-1].get("observedGeneration") == 2, what="a report about the new spec")
    assert bench.condition("Ready")["observedGeneration"] == 2
    bench.process(0).exit(0)
    bench.until("Succeeded")


@pytest.mark.parametrize("deleted", [True, False], ids=["its object is deleted", "its time is over"])
def test_a_stopped_pod_gets_its_grace_period_and_no_more(bench: Bench, deleted: bool) -> None:
    worker, process = bench.start_stubborn(terminationGracePeriodSeconds=7)
    bench.clock.pass_time(5, waiters=0)
    if deleted:
        assert worker.messages.stop()
    else:
        worker.messages.change_spec(2, 1)
    eventually(lambda: process.signals == ["TERM"])
    bench.clock.pass_time(6.9)
    bench.clock.wait_for_waiters()
    assert process.signals == ["TERM"]
    bench.clock.advance(0.1)
    assert worker.join(60)
    assert process.signals == ["TERM", "KILL"]
    assert bench.phase() == "Failed"
    assert bench.terminated()["exitCode"] == 137
    assert bench.api.finalised == ["p"] * deleted


def test_a_stopped_pod_is_not_restarted_and_its_object_stays_as_long_as_with_a_kubelet(bench: Bench) -> None:
    worker = bench.start(restartPolicy="Always")
    bench.process(0)
    bench.until("Running")
    worker.messages.stop()
    bench.until("Failed")
    bench.clock.pass_time(SHORTEST_TERMINATION - 0.01)
    worker.messages.stop(10)  # another deletion: neither later nor earlier for it
    bench.clock.wait_for_waiters()
    assert bench.runtime.released == ["p"]
    assert bench.api.finalised == []
    bench.clock.pass_time(0.01)
    assert worker.join(60)
    assert (bench.api.finalised, len(bench.runtime.processes)) == (["p"], 1)


def test_the_object_stays_no_longer_than_the_grace_period(bench: Bench) -> None:
    worker = bench.start()
    bench.process(0)
    worker.messages.stop()
    bench.until("Failed")
    bench.clock.wait_for_waiters()
    worker.messages.stop(0)
    assert worker.join(60)
    assert bench.api.finalised == ["p"]


def test_a_second_stop_can_only_shorten_the_grace_period(bench: Bench) -> None:
    worker, process = bench.start_stubborn()
    worker.messages.stop(5)
    worker.messages.stop(50)
    eventually(lambda: process.signals == ["TERM"])
    worker.messages.stop(0)
    assert worker.join(60)
    assert process.signals == ["TERM", "KILL"]


def test_a_pod_whose_object_is_gone_is_killed_without_a_word_and_one_that_can_not_be_bound_is_left_alone(
    bench: Bench,
) -> None:
    worker, process = bench.start_stubborn()
    worker.messages.abandon()
    assert worker.join(60)
    assert process.signals[-1] == "KILL"
    assert bench.phase() == "Running"
    assert bench.api.finalised == []
    report_count = len(bench.api.reports)
    bench.api.binds = False
    assert bench.start().join(60)
    assert (len(bench.api.reports), len(bench.runtime.processes)) == (report_count, 1)


def test_a_pod_waits_for_a_missing_config_map(bench: Bench) -> None:
    bench.start(container(command=["x"], envFrom=[{"configMapRef": {"name": "later"}}]))
    bench.waits_for("CreateContainerConfigError")
    assert bench.phase() == "Pending"
    assert bench.api.events == [("Failed", "Error: ConfigMap 'later' not found")]
    bench.api.data["ConfigMap", "later"] = {"A": b"1"}
    bench.clock.pass_time(1)
    assert bench.process(0).run.environment == {"A": "1"}
    bench.until("Running")
    assert bench.state()["restartCount"] == 0


def test_a_container_waits_for_what_the_runtime_needs_first(bench: Bench) -> None:
    failure = StartLater("ErrImagePull", "no such image", 2.0, event="Failed")
    bench.runtime.not_yet = [StartLater("ContainerCreating", "pulling", 0.5), failure]
    worker = bench.start()
    eventually(lambda: bench.waiting() == {"reason": "ContainerCreating", "message": "pulling"})
    bench.clock.advance(0.5)
    eventually(lambda: bench.waiting() == {"reason": "ErrImagePull", "message": "no such image"})
    assert bench.api.events == [("Failed", "no such image")]
    bench.clock.advance(2)
    process = bench.process(0)
    assert bench.state()["restartCount"] == 0
    process.exit(0)
    assert worker.join(60)


def test_a_variable_has_the_name_of_the_node_to_which_the_worker_has_bound_the_pod(bench: Bench) -> None:
    env = [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    bench.start(container(command=["x", "$(NODE_NAME)"], env=env))
    run = bench.process(0).run
    assert (run.environment["NODE_NAME"], run.command) == ("here", ("x", "here"))


def test_a_container_that_can_not_start_fails_with_the_reason_in_its_log(bench: Bench) -> None:
    bench.runtime.refuse = LaunchError("no such program", 127)
    assert bench.start().join(60)
    assert bench.phase() == "Failed"
    assert bench.terminated().items() >= {"exitCode": 127, "reason": "StartError", "message": "no such program"}.items()
    assert b"".join(bench.logs.read(LogRequest("ns", "p", "tensorflow"))) == b"tfoperator: no such program\n"
    mounting = container(command=["x"], volumeMounts=[{"name": "v", "mountPath": "/v"}])
    assert bench.start(mounting, volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]).join(60)
    assert "volume 'v'" in bench.terminated()["message"]


@pytest.mark.parametrize(
    "spec", [{"activeDeadlineSeconds": 60}, {}, {"restartPolicy": "Always"}], ids=["from the start", "set", "Always"]
)
def test_a_deadline_ends_a_pod_also_if_it_is_set_while_it_runs_and_keeps_object_and_log(
    bench: Bench, spec: dict[str, Any]
) -> None:
    worker = bench.start(**spec)
    process = bench.process(0)
    process.run.log.append("at work")
    bench.until("Running")
    bench.clock.pass_time(60, waiters=len(spec.keys() & {"activeDeadlineSeconds"}))
    if "activeDeadlineSeconds" not in spec:
        worker.messages.change_spec(2, 3600)
        bench.clock.wait_for_waiters()
        worker.messages.change_spec(2, 1)
    bench.until("Failed")
    assert bench.api.reports[-1]["reason"] == "DeadlineExceeded"
    assert bench.terminated()["exitCode"] == 143
    assert process.signals == ["TERM"]
    assert worker.join(60)
    assert bench.api.finalised == []
    [(*_, log)] = bench.logs.all()
    assert log.stopped
    assert b"".join(bench.logs.read(LogRequest("ns", "p", "tensorflow"))) == b"at work\n"


def test_a_deadline_ends_a_pod_that_waits_for_its_next_start(bench: Bench) -> None:
    worker = bench.start(restartPolicy="Always")
    for attempt in range(2):
        bench.process(attempt).exit(1)
    bench.waits_for("CrashLoopBackOff")
    bench.clock.pass_time(1)
    worker.messages.change_spec(2, 1)
    bench.until("Failed")
    assert bench.api.reports[-1]["reason"] == "DeadlineExceeded"


def test_a_pod_that_can_not_be_looked_after_fails_and_says_why(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: str, **__: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bench.logs, "open", full)
    worker = bench.start()
    assert worker.join(60)
    assert bench.phase() == "Failed"
    assert "No space left on device" in bench.api.reports[-1]["message"]
    assert bench.api.events[-1][0] == "Failed"


@pytest.fixture
def one_gpu(bench: Bench, tmp_path: Path) -> Iterator[GpuManager]:
    """Give the machine one GPU."""
    bench.gpus = GpuManager(library=lambda: Nvml(FakeNvml(uuids(1))), environ={}, locks=tmp_path / "locks")
    bench.gpus.open()
    yield bench.gpus
    bench.gpus.close()


def wanting(number: int) -> dict[str, Any]:
    return container(command=["x"], resources={"limits": {"nvidia.com/gpu": number}})


def unschedulable(bench: Bench) -> bool:
    conditions = bench.api.reports[-1]["conditions"] if bench.api.reports else []
    states = [(condition["type"], condition["status"], condition.get("reason")) for condition in conditions]
    return states == [("PodScheduled", "False", "Unschedulable")]


def test_a_pod_waits_for_a_gpu_and_runs_when_one_is_free(bench: Bench, one_gpu: GpuManager) -> None:
    bench.start(wanting(1))
    first = bench.process(0)
    assert len(first.run.gpus or ()) == 1
    bench.start(wanting(1))
    eventually(lambda: unschedulable(bench), what="the second waits")
    message = bench.api.reports[-1]["conditions"][0]["message"]
    assert message.startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    assert [reason for reason, _ in bench.api.events] == ["FailedScheduling"]
    first.exit(0)
    assert bench.workers[0].join(10)
    bench.clock.pass_time(1.0)
    assert bench.process(1).run.gpus == first.run.gpus
    assert bench.state()["state"].keys() == {"running"}
    scheduled = bench.condition("PodScheduled")
    assert bench.api.reports[-1]["startTime"] == scheduled["lastTransitionTime"], "it starts when it has its GPU"
    bench.start()
    assert bench.process(2).run.gpus == (), "one that wants none"


def test_a_pod_that_waits_for_a_gpu_can_be_stopped(bench: Bench, one_gpu: GpuManager) -> None:
    worker = bench.start(wanting(2))
    eventually(lambda: unschedulable(bench), what="it waits")
    assert worker.messages.stop(0)
    assert worker.join(10)
    assert bench.api.finalised == ["p"]
    assert bench.runtime.processes == []


def test_a_token_is_renewed_while_the_container_runs(bench: Bench) -> None:
    token = {"audience": "mine", "expirationSeconds": 1000, "path": "token"}
    volumes = [{"name": "t", "projected": {"sources": [{"serviceAccountToken": token}]}}]
    mounts = [{"name": "t", "mountPath": "/tokens"}]
    count = iter(range(1, 10))
    bench.api.tokens = lambda pod: lambda audience, seconds: str(next(count))  # type: ignore[method-assign]
    bench.start(container(command=["x"], volumeMounts=mounts), volumes=volumes)
    (mount,) = bench.process(0).run.mounts
    kept = mount.source / "token"
    assert kept.read_text() == "1"
    bench.clock.pass_time(799)
    bench.clock.wait_for_waiters()
    assert kept.read_text() == "1"
    bench.clock.advance(1)
    eventually(lambda: kept.read_text() == "2", within=60, what="another token")
