"""Changes: the first call shows the effect, and only a second call with its token makes the change."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.cluster import decode
from tests.support.jobs import submitted_manifest
from tests.support.served import ServedWorld
from tfoperator.api.v1.types import TFJOBS
from tfoperator.cli.commands.agents.messages import answers
from tfoperator.cli.commands.agents.messages.arguments import Run
from tfoperator.cli.commands.agents.tools import changes
from tfoperator.cli.commands.agents.tools.effects import ConfirmationRefused
from tfoperator.cli.commands.agents.tools.runs import run_command
from tfoperator.cli.commands.agents.tools.scope import Scope
from tfoperator.cli.commands.agents.tools.tool_table import Tool
from tfoperator.cli.terminal.errors import CliError
from tfoperator.kube.protocol.errors import ConflictError
from tfoperator.sdk import JobNotFound

Ask = Callable[..., answers.ChangeResult]


@pytest.fixture
def ask(scope: Scope, tools: tuple[Tool, ...]) -> Ask:
    by_name = {tool.name: tool for tool in tools}

    def call(tool: str, **asked: Any) -> answers.ChangeResult:
        result = by_name[tool].call(scope, msgspec.convert(asked, by_name[tool].arguments), lambda step: None)
        assert isinstance(result, answers.ChangeResult)
        return result

    return call


def test_a_job_is_suspended_and_resumed_by_two_calls_each(ask: Ask, world: ServedWorld) -> None:
    world.submit("mnist", Worker=2)
    shown = ask("suspend", job="mnist")
    assert not shown.made
    assert shown.effect == (
        f"The operator will delete the pods of TFJob {world.namespace}/mnist. The job will have no pods until it is "
        "resumed.",
    )
    assert not world.sdk.get_job("mnist").spec.suspended
    done = ask("suspend", job="mnist", token=shown.token)
    assert (done.made, done.token, done.job, done.namespace) == (True, "", "mnist", world.namespace)
    assert world.sdk.get_job("mnist").spec.suspended

    shown = ask("resume", job="mnist")
    assert shown.effect == (f"The operator will create the pods of TFJob {world.namespace}/mnist: 2 Worker.",)
    ask("resume", job="mnist", token=shown.token)
    assert not world.sdk.get_job("mnist").spec.suspended


def test_a_job_is_scaled_as_it_was_shown(ask: Ask, world: ServedWorld) -> None:
    world.submit("mnist", PS=1, Worker=2)
    shown = ask("scale", job="mnist", replicas={"worker": 5})
    assert shown.effect[0] == f"TFJob {world.namespace}/mnist will have 5 worker replicas instead of 2."
    with pytest.raises(ConfirmationRefused):
        ask("scale", job="mnist", replicas={"worker": 500}, token=shown.token)
    ask("scale", job="mnist", replicas={"worker": 5}, token=shown.token)
    assert world.sdk.get_job("mnist").spec.tf_replica_specs["Worker"].replicas == 5
    with pytest.raises(CliError, match="has no Chief replicas"):
        ask("scale", job="mnist", replicas={"Chief": 1})


def test_replicas_that_run_get_the_new_number_only_in_a_dynamic_or_elastic_job(ask: Ask, world: ServedWorld) -> None:
    for name, spec in (("fixed", {}), ("dynamic", {"enableDynamicWorker": True}), ("elastic", {"elasticPolicy": {}})):
        world.submit(name, Worker=2)
        world.client.patch(TFJOBS, world.namespace, name, {"spec": spec}, decode)
        world.status({"startTime": "2026-01-01T00:00:00Z"}, name)
    effects = {name: ask("scale", job=name, replicas={"Worker": 3}).effect for name in ("fixed", "dynamic", "elastic")}
    assert "neither spec.enableDynamicWorker nor spec.elasticPolicy" in effects["fixed"][1]
    assert [len(effect) for effect in effects.values()] == [2, 1, 1]


def test_a_token_is_void_when_the_job_has_changed_or_is_another_job_of_that_name(ask: Ask, world: ServedWorld) -> None:
    world.submit("mnist", Worker=2)
    shown = ask("delete", job="mnist")
    world.sdk.scale_job("mnist", 3)
    with pytest.raises(ConfirmationRefused, match="has changed"):
        ask("delete", job="mnist", token=shown.token)

    shown = ask("delete", job="mnist")
    world.sdk.delete_job("mnist")
    world.submit("mnist", Worker=3)
    with pytest.raises(ConfirmationRefused, match="has changed"):
        ask("delete", job="mnist", token=shown.token)
    assert world.sdk.get_job("mnist")


def test_a_job_that_took_the_name_meanwhile_is_not_deleted(world: ServedWorld) -> None:
    world.submit("mnist", Worker=2)
    with pytest.raises(ConflictError):
        world.sdk.delete_job("mnist", uid="the-uid-of-the-job-that-was-shown")
    assert world.sdk.get_job("mnist")


@pytest.mark.parametrize(
    ("tool", "asked"),
    [("suspend", {}), ("resume", {}), ("scale", {"replicas": {"Worker": 5}})],
    ids=["suspend", "resume", "scale"],
)
def test_a_job_that_takes_the_name_after_the_confirmation_is_not_changed(
    scope: Scope, tools: tuple[Tool, ...], ask: Ask, world: ServedWorld, tool: str, asked: dict[str, Any]
) -> None:
    world.submit("mnist", Worker=2)
    shown = ask(tool, job="mnist", **asked)
    (chosen,) = [each for each in tools if each.name == tool]

    def replace_job(step: str) -> None:
        if step == "making the change":
            world.sdk.delete_job("mnist")
            world.submit("mnist", Worker=3)

    arguments = msgspec.convert({"job": "mnist", "token": shown.token, **asked}, chosen.arguments)
    with pytest.raises(JobNotFound, match="was deleted, and another job has its name"):
        chosen.call(scope, arguments, replace_job)
    job = world.sdk.get_job("mnist")
    assert (job.spec.suspended, job.spec.tf_replica_specs["Worker"].replicas) == (False, 3)


def test_a_change_of_the_status_voids_no_token(ask: Ask, world: ServedWorld) -> None:
    world.submit("mnist", Worker=2)
    shown = ask("delete", job="mnist")
    assert "(Pending, 0/2 ready) will be deleted, with its pods and services." in shown.effect[0]
    world.becomes("Running")
    assert ask("delete", job="mnist", token=shown.token).made
    with pytest.raises(JobNotFound):
        world.sdk.get_job("mnist")


def test_a_named_file_is_submitted_after_a_dry_run(ask: Ask, scope: Scope, world: ServedWorld) -> None:
    path = Path("job.yaml").absolute()
    path.write_text(submitted_manifest("mnist", Worker=2))
    scope.files["job.yaml"] = path
    shown = ask("submit", file="job.yaml")
    assert shown.effect[0].startswith(f"TFJob {world.namespace}/mnist will be created: 2 Worker; images ")
    with pytest.raises(JobNotFound):
        world.sdk.get_job("mnist")
    path.write_text(submitted_manifest("mnist", Worker=200))
    with pytest.raises(ConfirmationRefused):
        ask("submit", file="job.yaml", token=shown.token)
    shown = ask("submit", file="job.yaml")
    assert "200 Worker" in shown.effect[0]
    done = ask("submit", file="job.yaml", token=shown.token)
    assert (done.made, done.job) == (True, "mnist")
    assert world.sdk.get_job("mnist").spec.tf_replica_specs["Worker"].replicas == 200


def test_a_text_starts_no_program_of_this_machine(
    ask: Ask, world: ServedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test uses the embedded API server, whose pods are processes."""
    text = submitted_manifest("mnist", Worker=2)
    with pytest.raises(CliError, match="only takes files that the user named"):
        ask("submit", manifest=text)
    monkeypatch.setattr(changes, "is_local", lambda client: False)
    shown = ask("submit", manifest=text)
    assert ask("submit", manifest=text, token=shown.token).made


def test_a_wrong_manifest_is_not_submitted(ask: Ask, scope: Scope) -> None:
    path = Path("job.yaml").absolute()
    scope.files["job.yaml"] = path
    path.write_text("apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: x}\nspec: {tfReplicaSpecs: {}}")
    with pytest.raises(CliError, match="the manifest is not valid") as refused:
        ask("submit", file="job.yaml")
    assert refused.value.hint == "The cluster is unchanged."
    path.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: x}")
    with pytest.raises(CliError, match="the input has 0 TFJobs"):
        ask("submit", file="job.yaml")


def test_a_run_shows_the_words_of_its_command(ask: Ask) -> None:
    shown = ask("run", file="train.py", workers=2, arguments=["--rate", "0.1; rm -rf /"], timeoutSeconds=60)
    path = Path("train.py").absolute()
    assert shown.effect[0] == (
        f"This command will be started on this machine: tfoperator run {path} --workers 2 --timeout 60s -- --rate "
        "'0.1; rm -rf /'"
    )
    assert shown.token


def test_a_manifest_takes_no_options_of_a_program() -> None:
    path = Path("/work/job.yaml")
    assert run_command(path, Run(file="job.yaml")) == ["run", "/work/job.yaml"]
    with pytest.raises(CliError, match="is a manifest"):
        run_command(path, Run(file="job.yaml", workers=2))
    with pytest.raises(CliError, match="is a manifest"):
        run_command(path, Run(file="job.yaml", arguments=("--kubeconfig", "x")))


def test_the_words_of_an_agent_are_never_options_of_the_command() -> None:
    words = run_command(
        Path("/work/train.py"), Run(file="train.py", chief=True, ps=1, arguments=("--logs-dir", "/etc"))
    )
    assert words == ["run", "/work/train.py", "--ps", "1", "--chief", "--", "--logs-dir", "/etc"]
