"""The tools that read: jobs of a cluster and runs of this machine, manifests, fields, pipelines."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.manifests import pod
from tests.support.served import ServedWorld
from tfoperator.cli.cluster import ClusterOptions
from tfoperator.cli.commands.agents.messages import answers
from tfoperator.cli.commands.agents.messages.answers import ToolAnswer, as_data
from tfoperator.cli.commands.agents.messages.arguments import ReadLogs
from tfoperator.cli.commands.agents.tools import jobs, manifests
from tfoperator.cli.commands.agents.tools.scope import Scope
from tfoperator.cli.commands.agents.tools.tool_table import READING
from tfoperator.cli.terminal.errors import CliError
from tfoperator.kube.views.objects import decode_pod
from tfoperator.report.facts import FinalState
from tfoperator.report.report import Others, Report
from tfoperator.sdk import ReplicaLog
from tfoperator.sdk.logs.pod_logs import end_of

TOOLS = {tool.name: tool for tool in READING}


def ask(scope: Scope, tool: str, **asked: Any) -> ToolAnswer:
    arguments = msgspec.convert(asked, TOOLS[tool].arguments)
    return TOOLS[tool].call(scope, arguments, lambda step: None)


def broken(world: ServedWorld, name: str = "mnist") -> None:
    """A job whose worker-1 has failed with a traceback, and worker-0 trains."""
    world.submit(name, Worker=2)
    world.pod("worker-0", name)
    world.logs.begin(f"{name}-worker-0", "".join(f"step {number}\n" for number in range(50)))
    world.pod("worker-1", name, phase="Failed", exit_code=1)
    world.logs.begin(f"{name}-worker-1", 'Traceback (most recent call last):\n  File "t.py", line 1\nValueError: no\n')
    world.becomes("Failed", name, message="1 Worker replica(s) failed")
    world.event("TFJob", name, "TFJobFailed", "1 Worker replica(s) failed", warning=True)


def test_a_job_of_the_cluster_is_explained_by_its_report(scope: Scope, world: ServedWorld) -> None:
    broken(world)
    explanation = ask(scope, "explain", job="mnist")
    assert isinstance(explanation, answers.Explanation)
    assert explanation.cause == "worker-1 failed first, with exit code 1: ValueError: no"
    assert explanation.first_failure is not None
    assert explanation.first_failure.log == f"kubectl logs mnist-worker-1 -n {world.namespace}"
    assert "  | ValueError: no" in explanation.evidence
    assert not [line for line in explanation.evidence if line.startswith("Next:")]
    assert explanation.next_steps == world.sdk.get_job_report("mnist").advice
    assert explanation.report is None

    whole = ask(scope, "explain", job="mnist", whole=True)
    assert isinstance(whole, answers.Explanation)
    assert whole.report == world.sdk.get_job_report("mnist")


@pytest.mark.parametrize(
    ("report", "cause", "steps"),
    [
        (Report("n", "j", "Succeeded"), "The job has succeeded.", ()),
        (Report("n", "j", "Running"), "TFJob n/j is running", ()),
        (Report("n", "j", "Pending", message="it waits for quota"), "it waits for quota", ()),
        (Report("n", "j", "Failed", message="no progress", stalled="no progress"), "no progress", ()),
        (
            Report(
                "n",
                "j",
                "Pending",
                others=(
                    Others(("ps-0", "ps-1"), FinalState.WAITING, "Unschedulable: no CPUs. Next: wait, or ask for less"),
                    Others(("worker-0",), FinalState.STOPPED, "its pod is gone"),
                ),
            ),
            "ps-0, ps-1: Unschedulable: no CPUs",
            ("Wait, or ask for less.",),
        ),
    ],
)
def test_the_cause_of_a_job_without_a_failure(report: Report, cause: str, steps: tuple[str, ...]) -> None:
    explanation = jobs.explained_by(report, "j")
    assert explanation.cause == cause
    assert explanation.next_steps == steps


def test_logs_around_a_text_and_the_last_lines(scope: Scope, world: ServedWorld) -> None:
    broken(world, "logged")  # the logs of a pod of this name are of this test only
    last = ask(scope, "logs", job="logged", lines=2)
    assert isinstance(last, answers.Logs)
    assert [(part.replica, part.lines, part.total) for part in last.logs] == [("worker-0", ("step 48", "step 49"), 50)]
    answer = ask(scope, "logs", job="logged", allReplicas=True, pattern="STEP 30", context=1)
    assert isinstance(answer, answers.Logs)
    assert answer.logs[0].lines == ("step 29", "step 30", "step 31")
    assert answer.logs[1].problem == "this text was not found in the log"
    absent = ask(scope, "logs", job="logged", replica="worker-1", previous=True)
    assert isinstance(absent, answers.Logs)
    assert absent.logs[0].problem == "there is no previous log"
    timed = ask(scope, "logs", job="logged", around="2026-01-01T00:00:00Z")
    assert isinstance(timed, answers.Logs)
    assert timed.logs[0].problem == "the log's lines have no times"


def test_lines_around_a_time() -> None:
    text = "".join(f"2026-01-01T12:00:{second:02d}.5Z step {second}\n" for second in range(60))
    log = ReplicaLog(decode_pod(msgspec.json.encode(pod("mnist-worker-0"))), text)
    when = datetime(2026, 1, 1, 12, 0, 30, 600000, tzinfo=UTC)
    assert jobs._log_part(log, ReadLogs(job="mnist", around=when, lines=3)).lines == ("step 29", "step 30", "step 31")
    asked = ReadLogs(job="mnist", around=when, pattern="step 4", context=0)
    assert jobs._log_part(log, asked).lines == ("step 40",), "the nearest line with the text"


def test_a_private_key_of_several_lines_is_masked_in_every_choice_of_lines() -> None:
    key = [f"{number:02d}{'aB3/' * 15}+=" for number in range(20)]
    lines = ["step 1", "-----BEGIN RSA PRIVATE KEY-----", *key, "-----END RSA PRIVATE KEY-----", "step 2"]
    stamped = "".join(f"2026-01-01T12:00:{second:02d}Z {line}\n" for second, line in enumerate(lines))
    log = ReplicaLog(decode_pod(msgspec.json.encode(pod("mnist-worker-0"))), stamped)
    when = datetime(2026, 1, 1, 12, 0, 10, tzinfo=UTC)
    for asked in (
        ReadLogs(job="mnist"),
        ReadLogs(job="mnist", lines=5),
        ReadLogs(job="mnist", pattern="step 1", context=3),
        ReadLogs(job="mnist", around=when, lines=3),
    ):
        part = jobs._log_part(log, asked)
        assert not [line for line in part.lines if "aB3" in line], asked
    assert jobs._log_part(log, ReadLogs(job="mnist", lines=1)).lines == ("step 2",)
    assert jobs._log_part(log, ReadLogs(job="mnist")).total == len(lines)


def test_a_secret_in_the_line_after_its_name_is_masked() -> None:
    log = ReplicaLog(decode_pod(msgspec.json.encode(pod("mnist-worker-0"))), "- name: DB_PASSWORD\n  value: hunter2\n")
    part = jobs._log_part(log, ReadLogs(job="mnist"))
    assert part.lines == ("- name: DB_PASSWORD", "  value: <masked>")


def test_an_answer_says_that_only_the_end_of_a_log_was_read_although_a_character_has_several_bytes() -> None:
    a_pod = decode_pod(msgspec.json.encode(pod("mnist-worker-0")))
    bar = "\u2588" * 100 + "\n"  # 301 bytes
    cut = end_of([bar.encode() * 10_000], jobs._LOG_BYTES).decode(errors="replace")
    assert jobs._log_part(ReplicaLog(a_pod, cut), ReadLogs(job="mnist")).read == "the last 2 MiB"
    assert jobs._log_part(ReplicaLog(a_pod, bar), ReadLogs(job="mnist")).read == "all"


def test_events_and_progress(scope: Scope, world: ServedWorld) -> None:
    broken(world)
    metrics = [{"name": "loss", "value": "0.25"}]
    world.status({"progress": {"percentage": 43, "completion": "43%", "step": 430, "metrics": metrics}})
    answer = ask(scope, "events", job="mnist")
    assert isinstance(answer, answers.Events)
    assert [(event.reason, event.type) for event in answer.events] == [("TFJobFailed", "Warning")]
    progress = ask(scope, "progress", job="mnist")
    assert isinstance(progress, answers.ProgressOfTraining)
    assert progress.summary == "43%, step 430, loss 0.25"
    assert progress.state == "Failed"


def test_jobs_and_runs_are_listed_together_and_a_run_is_explained_without_a_cluster(
    scope: Scope, world: ServedWorld
) -> None:
    world.submit("mnist")
    Path("bad.py").write_text("print('step 1')\nraise ValueError('no')\n")
    subprocess.run([sys.executable, "-m", "tfoperator.cli", "run", "bad.py"], capture_output=True, check=False)
    listed = ask(scope, "list_jobs")
    assert isinstance(listed, answers.JobList)
    assert [(line.where, line.job) for line in listed.jobs if line.where == "cluster"] == [("cluster", "mnist")]
    (run,) = (line for line in listed.jobs if line.where == "run")
    assert (run.state, listed.cluster) == ("Failed", "")

    alone = Scope(ClusterOptions(kubeconfig="absent"), pipelines="absent")
    for word in ("latest", run.job, f"{run.job}/bad"):
        explanation = ask(alone, "explain", job=word)
        assert isinstance(explanation, answers.Explanation)
        assert explanation.cause == "worker-0 failed first, with exit code 1: ValueError: no"
    assert isinstance(ask(alone, "events", job="latest"), answers.Events)
    progress = ask(alone, "progress", job="latest")
    assert isinstance(progress, answers.ProgressOfTraining)
    listed = ask(alone, "list_jobs")
    assert isinstance(listed, answers.JobList)
    assert [line.job for line in listed.jobs] == [run.job]
    assert listed.cluster.startswith("The jobs of the cluster could not be read: ")
    with pytest.raises(CliError, match="can't read its stacks"):
        ask(alone, "stacks", job="latest")
    with pytest.raises(CliError, match="this run has no job named other"):
        ask(alone, "explain", job="latest/other")
    with pytest.raises(CliError, match="this run does not exist"):
        ask(alone, "explain", job="absent/job")


def test_a_limit_to_a_namespace_holds_for_every_tool(scope: Scope, world: ServedWorld) -> None:
    world.submit("mnist")
    limited = Scope(
        ClusterOptions(kubeconfig=str(world.kubeconfig), namespace=world.namespace), pipelines=".tfoperator/pipelines"
    )
    try:
        for tool in READING:
            asked: dict[str, Any] = {"job": "mnist"} if "job" in tool.arguments.__struct_fields__ else {}
            if "namespace" in tool.arguments.__struct_fields__:
                with pytest.raises(CliError, match=f"limited to namespace {world.namespace}"):
                    ask(limited, tool.name, namespace="default", **asked)
            if "all_namespaces" in tool.arguments.__struct_fields__:
                with pytest.raises(CliError, match=f"limited to namespace {world.namespace}"):
                    ask(limited, tool.name, allNamespaces=True, **asked)
        job_list = ask(limited, "list_jobs", namespace=world.namespace)
        assert isinstance(job_list, answers.JobList)
        assert [line.job for line in job_list.jobs] == ["mnist"]
    finally:
        limited.close()


def test_every_namespace_can_be_listed_where_there_is_no_limit(scope: Scope, world: ServedWorld) -> None:
    world.submit("mnist")
    job_list = ask(scope, "list_jobs", allNamespaces=True, limit=500)
    assert isinstance(job_list, answers.JobList)
    assert world.namespace in {line.namespace for line in job_list.jobs}


JOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist}
spec:
  tfReplicaSpecs:
    Worker:
      replicaz: 2
      template: {spec: {containers: [{name: tensorflow, image: x}]}}
"""


def test_a_manifest_is_checked_as_by_the_command(scope: Scope) -> None:
    validation = ask(scope, "validate_manifest", manifest=JOB)
    assert isinstance(validation, answers.Validation)
    assert validation.valid
    (problem,) = validation.objects[0]["problems"]
    assert (problem["field"], problem["line"]) == ("spec.tfReplicaSpecs[Worker].replicaz", 8)
    strict = ask(scope, "validate_manifest", manifest=JOB, strict=True)
    assert isinstance(strict, answers.Validation)
    assert not strict.valid
    unread = ask(scope, "validate_manifest", manifest="a: [")
    assert isinstance(unread, answers.Validation)
    assert unread.errors[0]["source"] == "manifest"
    other = ask(scope, "validate_manifest", manifest="kind: Service\napiVersion: v1")
    assert isinstance(other, answers.Validation)
    assert other.errors[0]["message"] == "holds no TFJob"


def test_a_bomb_of_aliases_is_refused(scope: Scope) -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    validation = ask(scope, "validate_manifest", manifest=bomb)
    assert isinstance(validation, answers.Validation)
    assert not validation.valid
    assert validation.errors


def test_an_older_job_is_converted_and_its_migration_is_shown(scope: Scope) -> None:
    older = JOB.replace("kubeflow.org/v1", "kubeflow.org/v1alpha2").replace("replicaz", "replicas")
    converted = ask(scope, "convert_manifest", manifest=older)
    assert isinstance(converted, answers.Converted)
    assert converted.manifest.startswith("apiVersion: kubeflow.org/v1\nkind: TFJob\n")
    assert converted.notes[0] == "manifest:2: note: kubeflow.org/v1alpha2 is read as kubeflow.org/v1"
    with pytest.raises(CliError, match="not a version of TFJob"):
        ask(scope, "convert_manifest", manifest=JOB.replace("kubeflow.org/v1", "kubeflow.org/v9"))
    migration = ask(scope, "migrate", manifest=JOB.replace("replicaz", "replicas"))
    assert isinstance(migration, answers.Migration)
    assert migration.jobs[0]["name"] == "mnist"
    assert isinstance(ask(scope, "migrate"), answers.Migration)


@pytest.mark.parametrize(
    ("path", "kind", "required", "members"),
    [
        ("spec", "object", True, "tfReplicaSpecs"),
        ("spec.tfReplicaSpecs", "map of object", True, ""),
        ("spec.tfReplicaSpecs.Worker", "object", False, "restartPolicy"),
        ("spec.tfReplicaSpecs[*].replicas", "integer", False, ""),
        ("tfjob.spec.tfReplicaSpecs[Worker].template.spec.containers[0].name", "string", True, ""),
        ("spec.tfReplicaSpecs.Worker.template.spec.containers", "list of object", True, "image"),
        ("status.conditions[*]", "object", False, "message"),
    ],
)
def test_each_field_has_its_meaning(path: str, kind: str, required: bool, members: str) -> None:
    meaning = manifests.field_meaning(path)
    assert (meaning.type, meaning.required) == (kind, required)
    assert members in [member.name for member in meaning.members] or not members


def test_a_field_has_its_choices_and_its_default() -> None:
    meaning = manifests.field_meaning("spec.tfReplicaSpecs.Worker.restartPolicy")
    assert meaning.choices == ("Always", "OnFailure", "Never", "ExitCode")
    assert meaning.default == "Never"
    assert "Action after" in meaning.description


@pytest.mark.parametrize("path", ["spec.tfReplicaSpec", "spec.tfReplicaSpecs.Worker.replicas.x", "spec.runPolicy[0]"])
def test_a_field_that_does_not_exist_is_an_error(path: str) -> None:
    with pytest.raises(CliError, match="has no field"):
        manifests.field_meaning(path)


def test_an_answer_has_its_notice_first_and_no_empty_members(scope: Scope, world: ServedWorld) -> None:
    broken(world)
    data = as_data(ask(scope, "explain", job="mnist"))
    assert next(iter(data)) == "notice"
    assert "report" not in data
    assert "leftOut" not in data
