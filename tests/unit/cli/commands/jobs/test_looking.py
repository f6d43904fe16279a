import json
import re
import signal
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.support.cli import Cli
from tests.support.served import ServedWorld
from tests.unit.cli.conftest import Tell
from tests.unit.controller.builders import NOW, make_job, make_pod
from tfoperator.api.waiting import Reason, ReasonKind, waiting_for
from tfoperator.cli.views.description import print_description
from tfoperator.kube.protocol.resources import PODS
from tfoperator.kube.views.objects import decode_nothing


def test_it_tells_everything_that_helps_to_understand_a_job(tell: Tell, world: ServedWorld) -> None:
    world.submit(labels={"team": "vision"}, PS=1, Worker=4, condition="Created")
    world.becomes("Running", message="2 of 5 replicas run")
    workers = {"completedIndexes": "2", "restartCounts": {"2": 3}}
    world.status({"startTime": "2026-01-01T00:00:00Z", "replicaStatuses": {"Worker": workers}})
    world.pod("worker-0", restarts=2)
    world.pod("worker-1", phase="Pending", waiting="ImagePullBackOff")
    world.event("Pod", "mnist-worker-1", "Failed", "can't pull", warning=True)
    result = tell("describe", "mnist", code=0)
    assert (result.err, "MEMORY" in result.out) == ("", False), "where nobody measures"
    text = [" ".join(line.split()) for line in result.out.splitlines()]
    assert {"Labels: team=vision", "State: Running - 2 of 5 replicas run", "Asked for: 1 PS, 4 Worker"} < set(text)
    for begin, end in (
        ("worker-0 Running yes 2 ", "last exit code 137"),
        (
            "worker-1 ImagePullBackOff no 0 ",
            "can't be pulled (\"for a reason\"). Next: to see the kubelet's report: kubectl describe pod",
        ),
        ("worker-2 Completed no 3 ", ""),
        ("worker-3 No pod no 0 ", ""),
        ("ps-0 No pod ", ""),
        ("Running True ", "TFJobRunning 2 of 5 replicas run"),
        ("", "Warning Failed pod/mnist-worker-1 can't pull"),
    ):
        assert any(line.startswith(begin) and line.endswith(end) for line in text), (begin, end)
    report = json.loads(tell("describe", "mnist", "-o", "json").out)
    assert report["job"]["metadata"]["name"] == "mnist"
    assert [pod["metadata"]["name"] for pod in report["pods"]] == ["mnist-worker-0", "mnist-worker-1"]
    assert [(event["reason"], event["kind"], event["count"]) for event in report["events"]] == [("Failed", "Pod", 1)]


def test_a_large_job_that_nobody_has_taken_notice_of_does_not_fill_the_screen_and_has_a_tensorboards_address(
    tell: Tell, world: ServedWorld
) -> None:
    world.submit(Worker=500)
    out = tell("describe", "mnist").out
    assert "none: perhaps the operator is not running" in out
    assert "State:        Pending" in out
    assert "worker: 480 more" in out
    assert len(out.splitlines()) < 50
    for ready, shown in ((False, "http://board (not ready)"), (True, "http://board")):
        world.status({"tensorBoard": {"url": "http://board", "ready": ready}})
        assert f"TensorBoard:  {shown}\n" in tell("describe", "mnist").out


def test_a_data_service_is_shown_with_its_restarts_and_why_a_part_of_it_does_not_run(
    tell: Tell, world: ServedWorld
) -> None:
    world.submit(Worker=1)
    service = {"address": "grpc://mnist-dispatcher-0.ns.svc:5050", "ready": "2/3", "restarts": 4}
    world.status({"dataService": {**service, "message": "dataworker-1: exits with 1 again and again"}})
    shown = "grpc://mnist-dispatcher-0.ns.svc:5050, 2/3 ready, 4 restarts - dataworker-1: exits with 1 again and again"
    assert f"Data service: {shown}\n" in tell("describe", "mnist").out


def test_what_runs_on_after_a_success_is_named_with_how_to_end_it(tell: Tell, world: ServedWorld) -> None:
    world.submit(Worker=2, Evaluator=1)
    world.pod("worker-0", phase="Succeeded")
    world.pod("evaluator-0")
    assert "Still runs:" not in tell("describe", "mnist").out
    world.becomes("Succeeded")
    text = " ".join(tell("describe", "mnist").out.split())
    assert "Still runs: 1 pod still runs (evaluator-0). The operator lets running pods finish" in text
    assert "set spec.runPolicy.cleanPodPolicy to Running" in text


QUOTA = Reason(ReasonKind.QUOTA, "ResourceQuota few has no room for its pod", "request less")


def test_replicas_that_can_not_be_made_have_the_reason_of_the_condition_in_every_view(
    tell: Tell, world: ServedWorld
) -> None:
    world.submit(PS=1, Worker=3)
    message = f"TFJob default/mnist does not run yet. 0/4 replicas ready; Worker-1 and Worker-2 wait: {QUOTA}."
    conditions = [{"type": "Created", "status": "True"}, {"type": "Running", "status": "False", "message": message}]
    waiting = msgspec.to_builtins(waiting_for([("Worker", 1, QUOTA), ("Worker", 2, QUOTA)]))
    world.status({"conditions": conditions, "waiting": waiting})
    world.pod("worker-0", phase="Pending", waiting="InvalidImageName")
    rows = [" ".join(line.split()) for line in tell("describe", "mnist", code=0).out.splitlines()]
    assert f"worker-1 No pod no 0 - - {QUOTA}" in rows
    assert f"worker-2 No pod no 0 - - {QUOTA}" in rows
    report = tell("report", "mnist", code=0).out
    assert "No problem was found" not in report
    assert f"worker-1, worker-2 wait: {QUOTA}" in report
    assert "worker-0 waits: InvalidImageName: for a reason. Next: correct the image's name" in report
    assert (
        "ps-0 waits: it has no pod, and the job does not show the reason. Next: check that the operator is running"
        in report
    )


def test_a_report_names_what_took_a_replica_and_a_job_that_runs_well_has_nothing_to_report(
    tell: Tell, world: ServedWorld
) -> None:
    world.submit(Worker=2)
    world.becomes("Running", message="runs")
    world.pod("worker-0")
    world.pod("worker-1")
    assert "No problem was found." in tell("report", "mnist", code=0).out
    world.status({"disruptions": 1, "restarts": 1})
    taken = (
        "job mnist is restarting because a disruption (not a failure) ended replica(s): Worker-1 (node n2 is lost: "
        "DeletionByTaintManager)."
    )
    world.event("TFJob", "mnist", "TFJobRestarting", taken, warning=True)
    report = tell("report", "mnist", code=0).out
    assert "worker-1: was taken: node n2 is lost: DeletionByTaintManager" in report


def test_a_pod_that_waits_for_a_volume_shows_the_last_word_of_its_kubelet(tell: Tell, world: ServedWorld) -> None:
    world.submit(Worker=1)
    status = {
        "phase": "Pending",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "PodReadyToStartContainers", "status": "False"}],
        "containerStatuses": [{"name": "tensorflow", "state": {"waiting": {"reason": "ContainerCreating"}}}],
    }
    name = world.pod("worker-0", phase="Pending")
    world.client.patch(PODS, world.namespace, name, {"status": status}, decode_nothing, subresource="status")
    world.event("Pod", "mnist-worker-0", "FailedMount", 'configmap "settings" not found', warning=True)
    for command in ("describe", "report"):
        out = " ".join(tell(command, "mnist", code=0).out.split())
        assert (
            "PodIsPrepared: the kubelet of its node prepares the pod since 00:00:00 UTC. Next: to see "
            "whether a volume can't be mounted" in out
        )
        assert 'Its last event: FailedMount: configmap "settings" not found' in out


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_job_is_one_row_and_a_wide_one_says_why_and_how_long(tell: Tell, world: ServedWorld) -> None:
    world.submit("a", PS=1, Worker=2)
    world.submit("b")
    world.becomes("Running", "a")
    world.status({"ready": "2/3", "restarts": 4, "progress": {"completion": "43%", "eta": "3m20s"}}, "a")
    result = tell("get")
    assert rows(result.out) == [
        ["NAME", "STATE", "READY", "RESTARTS", "PROGRESS", "ETA", "AGE"],
        ["a", "Running", "2/3", "4", "43%", "3m20s", rows(result.out)[1][-1]],
        ["b", "Pending", "0/2", "0", "-", "-", rows(result.out)[2][-1]],
    ]
    assert "\x1b" not in result.out
    world.becomes("Failed", "a", message="it broke")
    world.status({"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:05:30Z"}, "a")
    result = tell("get", "-o", "wide", code=0)
    assert re.split(" {2,}", result.out.splitlines()[1])[-4:] == ["-", "5m30s", "1 PS, 2 Worker", "it broke"]
    assert (result.err, "MEMORY" in result.out) == ("", False), "where nobody measures"


def test_what_the_time_went_to_is_told_up_to_now(tell: Tell, world: ServedWorld) -> None:
    world.submit()
    long_ago = "2026-01-01T00:05:00Z"
    world.status({"usage": {"since": long_ago, "source": "Pods"}})
    assert "Time:" not in tell("describe", "mnist").out, "none was spent"
    usage = {"since": long_ago, "seconds": {"training": 240, "lost": 60}, "source": "Reports"}
    held = {"inUse": 0, "requestedSeconds": 1536 * 2**30 * 3600, "trainedSeconds": 2**30 * 3600}
    world.status({"usage": {**usage, "resources": {"memory": held}, "resourcesSince": long_ago}})
    described = tell("describe", "mnist").out
    assert re.search(r"Time: +training 80% of the time: training 4m, lost 60s \(from progress reports\)", described)
    assert re.search(r"Resources: +memory 1,536 GiB h \(1 trained\)", described)
    assert "80%" in tell("get", "-o", "wide").out
    world.status({"usage": {"phase": "stalled"}})
    assert re.search(r"Time: +training [0-9]% of the time: training 4m, stalled", tell("describe", "mnist").out)
    for seconds, is_told in ((9, False), (10, True)):
        world.status({"usage": {"phase": "", "seconds": {"training": 0, "stalled": 0, "lost": 0, "starting": seconds}}})
        assert ("% of the time" in tell("describe", "mnist").out) is is_told


def test_the_cost_of_each_change_of_size_is_shown_by_describe_and_after_the_end_by_report(
    tell: Tell, world: ServedWorld
) -> None:
    world.submit()
    first = {"time": "2026-01-01T00:01:00Z", "before": 4, "workers": 3, "untrainedSeconds": 21}
    last = {"time": "2026-01-01T00:02:00Z", "before": 3, "workers": 4}
    # A suspended job has no number of workers, but its changes have their costs.
    elastic = {"workers": 0, "wanted": 0, "changes": 2, "resizes": [first, last]}
    world.status({"elastic": elastic})
    texts = ["4 to 3 at 2026-01-01 00:01:00: 21 s without training", "3 to 4 at 2026-01-01 00:02:00: not at work yet"]
    assert re.search(f"Resized: +{'; '.join(texts)}\n", tell("describe", "mnist").out)
    assert "Changes of the number of workers" not in tell("report", "mnist").out, "the job has not ended"
    last["untrainedSeconds"] = 7
    texts[1] = texts[1].replace("not at work yet", "7 s without training")
    world.status({"elastic": {"resizes": [first, last]}})
    world.becomes("Succeeded")
    assert "\n\nChanges of the number of workers:\n  " + "\n  ".join(texts) in tell("report", "mnist").out
    assert json.loads(tell("report", "mnist", "-o", "json").out)["resized"] == texts


def test_one_job_as_json_is_the_object_and_several_are_a_list(tell: Tell, world: ServedWorld) -> None:
    world.submit("a", labels={"only": world.namespace})
    world.submit("b")
    result = tell("get", "-A", "-l", f"only={world.namespace}")
    assert [row[:2] for row in rows(result.out)] == [["NAMESPACE", "NAME"], [world.namespace, "a"]]
    job = json.loads(tell("get", "a", "-o", "json").out)
    assert (job["kind"], job["metadata"]["name"]) == ("TFJob", "a")
    assert yaml.safe_load(tell("get", "a", "-o", "yaml").out) == job
    assert [item["kind"] for item in json.loads(tell("get", "-o", "json").out)["items"]] == ["TFJob", "TFJob"]
    assert tell("get", "-o", "name").out == "tfjob.kubeflow.org/a\ntfjob.kubeflow.org/b\n"


def test_nothing_to_show_is_no_failure_but_a_missing_job_is_named_beside_those_that_are_there(
    tell: Tell, world: ServedWorld
) -> None:
    result = tell("get")
    assert (result.code, result.out, result.err) == (0, "", f"No TFJobs found in namespace {world.namespace}.\n")
    assert json.loads(tell("get", "-o", "json").out)["items"] == []
    world.submit("a")
    result = tell("get", "a", "gone", "-o", "name")
    assert (result.code, result.out) == (1, "tfjob.kubeflow.org/a\n")
    assert result.err == (
        f"tfoperator: there is no TFJob gone in namespace {world.namespace}\n"
        f"To list the jobs: tfoperator get -n {world.namespace}\n"
    )
    assert tell("get", "gone", "-w").code == 1
    described = tell("describe", "gone", code=1)
    assert (described.out, "there is no TFJob gone" in described.err) == ("", True)


@pytest.mark.parametrize("arguments", [["a", "-A"], ["a", "b", "-w"]])
def test_what_makes_no_sense_is_exit_code_2(tell: Tell, arguments: list[str]) -> None:
    assert tell("get", *arguments).code == 2


def test_colours_are_for_terminals_and_no_color_is_honoured(
    tell: Tell, world: ServedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit(condition="Running")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[36mRunning\x1b[0m" in tell("get").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in tell("get").out


def test_events_are_a_table_oldest_first_and_none_are_no_failure(tell: Tell, world: ServedWorld) -> None:
    world.submit()
    result = tell("events", "mnist")
    assert (result.code, result.out) == (0, "")
    assert "There are no events about TFJob mnist" in result.err
    world.event("TFJob", "mnist", "Later", "second", lastTimestamp="2099-01-01T00:00:00Z", count=3)
    world.event("Pod", "mnist-worker-0", "Earlier", "first\nline", warning=True)
    header, first, second = tell("events", "mnist").out.splitlines()
    assert header.split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert first.split()[1:] == ["Warning", "Earlier", "pod/mnist-worker-0", "first", "line"]
    assert second.split() == ["<invalid>", "(x3)", "Normal", "Later", "tfjob/mnist", "second"]
    assert [event["reason"] for event in json.loads(tell("events", "mnist", "-o", "json").out)] == ["Earlier", "Later"]


def test_watching_shows_new_ones(world: ServedWorld, tmp_path: Path) -> None:
    world.submit()
    world.event("TFJob", "mnist", "Old", "before")
    with Cli(tmp_path, KUBECONFIG=str(world.kubeconfig)).start("events", "mnist", "-w") as command:
        command.until("before")
        world.event("TFJob", "other", "Foreign", "not ours")
        world.event("Pod", "mnist-worker-0", "New", "after")
        command.until("after")
        assert command.end(signal.SIGINT) == 130
    assert "not ours" not in command.output


def test_a_replica_that_was_stopped_has_the_operators_reason_and_not_its_kubelets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopped = make_pod(
        "Worker-0", "Failed", reason="DeadlineExceeded", message="too long", stopped="job-failed", deadline=1
    )
    print_description(make_job({"Worker": 1}), [stopped], [], NOW, {})
    assert re.search(r"worker-0 +Stopped .* job-failed", capsys.readouterr().out)
