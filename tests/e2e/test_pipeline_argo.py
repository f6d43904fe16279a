"""The output of `pipeline compile`: checked and substituted by Argo's own code, and played where pods run."""

import base64
import json
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.postgres import PostgresServer
from hack.s3_server import BUCKET
from tests.support.argo import Answer, Task, argo, in_order
from tests.support.cli import Cli
from tests.support.cluster import decode
from tests.support.eventually import eventually
from tests.support.local_cluster import cli, cluster
from tests.support.services import postgres, postgres_process, s3, s3_variables
from tfoperator.kube.protocol.resources import PODS
from tfoperator.local.controlplane import ControlPlane
from tfoperator.object_store import Objects

__all__ = ["cli", "cluster", "postgres", "postgres_process", "s3", "s3_variables"]

UID = "11111111-2222-4333-8444-555555555555"

PIPELINE = """
from tfoperator.launcher import ExecutorContainerSpec
from tfoperator.pipeline import BaseComponent, ChannelParameter, ExecutionParameter, Pipeline, make_spec_class

SAY = '''
echo saying
printf %s "$1" > "$2-elsewhere"
printf '{"outputs": {"text": {"uri": "%s-elsewhere", "properties": {"evil": "%s"}}}}' "$2" "$4" > "$3/output.json"
'''
ADD = 'echo began >> "$4"; while test -e "$4.hold"; do sleep 0.05; done; { cat "$1"; printf %s "$2"; } > "$3"'

def shell(script, *args):
    return ExecutorContainerSpec("example.invalid/x:1", ["sh", "-ec", script, "step"], args)

class Say(BaseComponent):
    SPEC_CLASS = make_spec_class(outputs={"text": ChannelParameter(type="Text")},
                                 parameters=dict.fromkeys(("note", "evil"), ExecutionParameter(type=str)))
    EXECUTOR_SPEC = shell(SAY, "{{ exec_properties.note }}", "{{ outputs.text.uri }}", "{{ exec_properties.tmp_path }}",
                          "{{ exec_properties.evil }}")

class Add(BaseComponent):
    SPEC_CLASS = make_spec_class(inputs={"before": ChannelParameter(type="Text")},
                                 outputs={"text": ChannelParameter(type="Text")},
                                 parameters={"end": ExecutionParameter(type=float),
                                             "mark": ExecutionParameter(type=str)})
    EXECUTOR_SPEC = shell(ADD, "{{ inputs.before.uri }}", "{{ exec_properties.end }}", "{{ outputs.text.uri }}",
                          "{{ exec_properties.mark }}")

EVIL = "{{workflow.uid}} $(HOME)"

def create_pipeline(root, marks, note="plain", end=0.5, left_out=None):
    say = Say(note=note, evil=EVIL)
    one = Add(before=say.outputs.text, end=end, mark=marks + "/one", instance_name="one")
    two = Add(before=say.outputs.text, end=2.0, mark=marks + "/two", instance_name="two")
    last = Add(before=one.outputs.text, end=9.0, mark=marks + "/last", instance_name="last")
    return Pipeline("words", root, [say, one, two, last])
"""
HOSTILE = (
    "{{workflow.uid}}", "{{=workflow.uid}}", "{{inputs.parameters.step}}", "$(KUBERNETES_SERVICE_HOST)", "$$(HOME)",
    "{{workflow.parameters.root}} }}", "a=b=c", "", "line\nbreak\t\"quoted\" 'too' \\ ü 漢", "{{ retries }}", "%s {0}",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "words.py").write_text(PIPELINE)
    (tmp_path / "marks").mkdir()
    return tmp_path


def compiled(cli: Cli, folder: Path, *more: str) -> str:
    """The workflow, whose paths are this machine's."""
    given = ["--param", f"root={folder}/root", "--param", f"marks={folder}/marks"]
    pods = ["--image", "example.com/p:1", "--claim", f"data:{folder}", "--home", f"{folder}/records"]
    file = ["--pipeline-file", f"{folder}/words.py"]
    return cli.run("pipeline", "compile", "words.py", *pods, *file, *given, *more, code=0).stdout


def played(cli: Cli, task: Task) -> tuple[str, ...]:
    """The words of `tfoperator` that a task's container runs."""
    assert task.command == ["tfoperator", "pipeline"]
    return ("pipeline", *task.args)


def run_all(cli: Cli, answer: Answer) -> None:
    assert answer.error == ""
    for task in in_order(answer.tasks):
        cli.run(*played(cli, task), code=0)
    assert answer.exit is not None
    assert "words: succeeded" in cli.run(*played(cli, answer.exit), code=0).stdout


def made(folder: Path, run: str) -> dict[str, str]:
    """Return the output of a run, by step."""
    return {path.parts[-3]: path.read_text() for path in (folder / "root").glob(f"*/text/{run}*")}


def report_of(cli: Cli, folder: Path, run: str) -> dict[str, Any]:
    done = cli.run("pipeline", "show", run, "--home", f"{folder}/records", "-o", "json", code=0)
    return dict(json.loads(done.stdout))


def test_a_workflow_that_is_played_makes_what_a_run_makes(cli: Cli, cluster: ControlPlane, folder: Path) -> None:
    answer = argo(compiled(cli, folder), "note=a note", uid=UID)
    run_all(cli, answer)
    given = ["--param", f"root={folder}/root", "--param", f"marks={folder}/marks", "--param", "note=a note"]
    options = ["--containers", "kubernetes", "--home", f"{folder}/records", "--run-id", "own"]
    cli.run("pipeline", "run", "words.py", *given, *options, code=0)
    assert made(folder, UID) == made(folder, "own") == {
        "Say": "a note", "Add.one": "a note0.5", "Add.two": "a note2.0", "Add.last": "a note0.59.0"
    }  # fmt: skip
    theirs, own = (report_of(cli, folder, run) for run in (UID, "own"))
    assert [[step["state"] for step in report["steps"]] for report in (theirs, own)] == [["succeeded"] * 4] * 2
    (before,) = theirs["steps"][1]["inputs"]["before"]
    assert before["uri"] == f"{folder}/root/Say/text/{UID}-elsewhere"
    assert before["properties"] == {"evil": "{{workflow.uid}} $(HOME)"}
    assert not cluster.client.list(PODS, "default", decode).items


def test_a_launcher_that_is_killed_is_followed_by_one_that_finds_its_pod(
    cli: Cli, cluster: ControlPlane, folder: Path
) -> None:
    answer = argo(compiled(cli, folder), uid=UID)
    say, add_one, *_ = in_order(answer.tasks)
    assert (add_one.name, add_one.repeated) == (
        "Add-one",
        {"-1": True, "1": False, "2": False, "75": True, "137": True, "143": True},
    )
    cli.run(*played(cli, say), code=0)
    hold, began = folder / "marks/one.hold", folder / "marks/one"
    hold.touch()
    with cli.start(*played(cli, add_one)) as launcher:
        eventually(began.exists, within=60)
        launcher.end(signal.SIGKILL)
    assert len(cluster.client.list(PODS, "default", decode).items) == 1
    assert "running" in cli.run("pipeline", "runs", "--home", f"{folder}/records", code=0).stdout
    hold.unlink()
    cli.run(*played(cli, add_one), code=0)
    assert began.read_text() == "began\n"
    assert answer.exit is not None
    ended = cli.run(*played(cli, answer.exit), code=0)
    assert "cancelled: Add.two, Add.last: not done" in ended.stdout


def test_of_two_launchers_of_one_step_with_records_in_postgresql_one_launches_its_pod(
    postgres: PostgresServer, s3: object, cli: Cli, cluster: ControlPlane, folder: Path
) -> None:
    home = f"{postgres.database('argo')}?folder=s3://{BUCKET}/logs"
    answer = argo(compiled(cli, folder, "--home", home, "--secret", "db"), uid=UID)
    say, add_one, *others = in_order(answer.tasks)
    cli.run(*played(cli, say), code=0)
    hold, began = folder / "marks/one.hold", folder / "marks/one"
    hold.touch()
    with cli.start(*played(cli, add_one)) as first, cli.start(*played(cli, add_one)) as second:
        eventually(began.exists, within=60)
        codes = eventually(lambda: {launcher.process.poll() for launcher in (first, second)} - {None}, within=100)
        assert codes == {75}  # Argo starts it again
        assert len(cluster.client.list(PODS, "default", decode).items) == 1
        hold.unlink()
        assert {first.wait(), second.wait()} == {0, 75}
    for task in (add_one, *others, answer.exit):
        last = cli.run(*played(cli, task), code=0)
    assert "words: succeeded" in last.stdout
    assert began.read_text() == "began\n"
    assert not (folder / "records").exists()
    assert cli.run("pipeline", "logs", UID, "Say", "--home", home, code=0).stdout == "saying\n"
    cli.run("pipeline", "clean", UID, "--home", home, code=0)
    assert list(Objects(f"s3://{BUCKET}/logs").all()) == []


def test_what_a_failed_workflow_has_left_is_stopped_at_its_end(cli: Cli, cluster: ControlPlane, folder: Path) -> None:
    answer = argo(compiled(cli, folder), uid=UID)
    say, add_one, *_ = in_order(answer.tasks)
    cli.run(*played(cli, say), code=0)
    (folder / "marks/one.hold").touch()
    with cli.start(*played(cli, add_one)) as launcher:
        eventually((folder / "marks/one").exists, within=60)
        launcher.end(signal.SIGKILL)
    assert answer.exit is not None
    cli.run(*played(cli, answer.exit), code=0)
    assert not cluster.client.list(PODS, "default", decode).items


def test_values_reach_the_pipeline_as_they_were_given(folder: Path, cli: Cli) -> None:
    text = compiled(cli, folder)
    for value in HOSTILE:  # one after the other, because a text in one value might end a text in another
        answer = argo(text, f"note={value}", f"left_out={value}")
        assert answer.error == "", value
        for task in answer.tasks:
            encoded = dict(
                word.removeprefix("--encoded-param=").split("=", 1) for word in task.args if "encoded" in word
            )
            assert [base64.b64decode(encoded[name]).decode() for name in ("note", "left_out")] == [value] * 2
            rest = [word for word in task.args if "encoded" not in word]
            assert not any("{{" in word or "$(" in word for word in [*rest, *encoded.values()])
    assert argo(text, "note={{").error in (
        "",
        'Cannot find end tag="}}" in the template',
    )  # Argo's own, with any workflow


def test_argo_accepts_templates_defaults_that_are_hostile_and_many_steps_of_long_names(cli: Cli, folder: Path) -> None:
    hostile = " ".join(HOSTILE)
    answer = argo(compiled(cli, folder, "--template", "--param", f"note={hostile}"), "end=2")
    assert answer.error == ""
    (word,) = [word for word in answer.tasks[0].args if word.startswith("--encoded-param=note=")]
    assert base64.b64decode(word.split("=", 2)[2]).decode() == hostile
    step = "'Some.very-long_name.' + 'x' * 150 + f'.{n}'"
    (folder / "words.py").write_text(
        PIPELINE + "\ndef create_pipeline(root, marks):\n"
        f"    steps = [Say(note='x', evil='').with_id({step}) for n in range(1)]\n"
        "    for n in range(1, 300):\n"
        f"        steps.append(Add(before=steps[n // 2].outputs.text, end=1.0, mark='').with_id({step}))\n"
        "    return Pipeline('Many.' + 'y' * 70, root, steps)\n"
    )
    text = compiled(cli, folder)
    answer = argo(text)
    assert (answer.error, len(answer.tasks)) == ("", 300)
    assert len(yaml.safe_load(text)["metadata"]["generateName"]) <= 57
