import json
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
import yaml

from hack.postgres import PostgresServer
from tests.support.eventually import eventually
from tests.unit.cli.conftest import Run
from tfoperator.base.clock import SystemClock
from tfoperator.cli.views.pipelines import lineage_lines
from tfoperator.launcher.core.record import LaunchRecord, WorkDirectory
from tfoperator.pipeline import Home
from tfoperator.pipeline.lease import RunLease
from tfoperator.pipeline.store.metadata_store import Lineage
from tfoperator.pipeline.store.records import ArtifactRecord, ExecutionRecord, RunRecord

FILE = """
from pathlib import Path
from tfoperator.launcher import ExecutorClassSpec, ExecutorContainerSpec, DockerPlatformConfig, RetryableFailure
from tfoperator.pipeline import BaseComponent, ChannelParameter, ExecutionParameter, Pipeline, make_spec_class

class Write:
    def do(self, inputs, outputs, properties):
        if properties["number"] < 0:
            raise RetryableFailure("busy \\x1b[31m") if properties["number"] == -1 else ValueError("bad number")
        Path(outputs["text"][0].uri).write_text(str(properties["number"]))

class First(BaseComponent):
    SPEC_CLASS = make_spec_class(outputs={"text": ChannelParameter(type="Text")},
                                 parameters={"number": ExecutionParameter(type=int)})
    EXECUTOR_SPEC = ExecutorClassSpec(Write)

class Second(First):
    SPEC_CLASS = make_spec_class(inputs={"before": ChannelParameter(type="Text")},
                                 outputs={"text": ChannelParameter(type="Text")},
                                 parameters={"number": ExecutionParameter(type=int)})

def create_pipeline(number=1, other=2, note=None):
    first = First(number=number)
    return Pipeline("two", "root", [first, Second(before=first.outputs.text, number=other)], enable_cache=True)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in {"two", "other", "odd"} & (set(sys.modules) - before):
        del sys.modules[name]


@pytest.fixture
def two(here: Path) -> str:
    (here / "two.py").write_text(FILE)
    return "two.py"


def test_a_run_says_what_it_does_and_is_there_to_be_looked_at(run: Run, two: str, here: Path) -> None:
    result = run("pipeline", "run", two, code=0)
    assert "First: running" in result.err
    assert "2 of 2 steps done" in result.err
    report = json.loads(run("pipeline", "run", two, "--param", "other=3", "-o", "json", code=0).out)
    assert [step["state"] for step in report["steps"]] == ["cached", "succeeded"]
    uri = report["steps"][1]["outputs"]["text"][0]["uri"]
    assert uri == f"{here}/root/Second/text/{report['run']}"

    listed = run("pipeline", "runs", code=0).out.splitlines()
    assert (listed[0].split()[:3], len(listed)) == (["RUN", "PIPELINE", "STATE"], 3)
    assert [load["state"] for load in json.loads(run("pipeline", "runs", "-o", "json", code=0).out)] == [
        "succeeded"
    ] * 2
    shown = run("pipeline", "show", "latest", code=0).out
    assert "parameters: number=1, other=3" in shown
    assert f"-> Text 3: {uri}" in shown
    whole = json.loads(run("pipeline", "show", report["run"], "-o", "json", code=0).out)
    assert whole["steps"][1]["inputs"]["before"][0]["id"] == 1
    assert "by First (run" in run("pipeline", "lineage", uri, code=0).out
    down = json.loads(run("pipeline", "lineage", "1", "--downstream", "-o", "json", code=0).out)
    assert [artifact["artifact"]["id"] for artifact in down["artifacts"]] == [2, 3]
    for what in (two, "latest"):
        ElementTree.fromstring(run("pipeline", "graph", what, code=0).out)
    assert "no log" in run("pipeline", "logs", "latest", "Second", code=0).err


def closed(line: str) -> None:
    raise BrokenPipeError(32, "Broken pipe")


def test_exit_codes_tell_what_to_do(run: Run, two: str) -> None:
    busy = run("pipeline", "run", two, "--param", "number=-1", "--attempts", "1", "--containers=process", code=75)
    assert "tfoperator pipeline run two.py --containers process --resume 2" in busy.err
    assert "\x1b" not in busy.err
    bad = run("pipeline", "run", two, "--param", "number=-2", code=1)
    assert "First: component First failed: exit code 1: ValueError: bad number" in bad.err
    with pytest.MonkeyPatch.context() as reader:
        reader.setattr("typer.echo", closed)
        assert "can't be read" not in run("pipeline", "logs", "latest", "First").err
    log = run("pipeline", "logs", "latest", "First", code=0).out
    assert ("Traceback" in log, "ValueError: bad number" in log) == (True, True)
    report = json.loads(run("pipeline", "run", two, "--param", "number=-2", "-o", "json", code=1).out)
    assert [step["state"] for step in report["steps"]] == ["failed", "skipped"]
    with open("/dev/full", "w") as full, pytest.MonkeyPatch.context() as output:
        output.setattr(sys, "stdout", full)
        result = run("pipeline", "run", two, "--param", "number=-2", code=1)
    assert "can't write to standard output any more (No space left on device)" in result.err


def test_what_was_put_out_is_removed_unless_another_run_uses_it(run: Run, two: str, here: Path) -> None:
    first = json.loads(run("pipeline", "run", two, "-o", "json", code=0).out)["run"]
    second = json.loads(run("pipeline", "run", two, "--param", "other=5", "-o", "json", code=0).out)["run"]
    run("pipeline", "clean", first, "--outputs", code=0)
    assert {path.name for path in (here / "root").rglob("*") if path.is_file()} == {first, second}
    run("pipeline", "clean", "--keep", "0", "--outputs", code=0)
    assert [path.name for path in (here / "root").rglob("*") if path.is_file()] == [first]
    assert "no pipeline has more than 10 runs, so nothing is removed" in run("pipeline", "clean", code=0).err


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (None, [], "No such file"),
        ("x = 1", [], "has no function create_pipeline"),
        ("def create_pipeline(): return 3", [], "must return a Pipeline, but returns a int"),
        ("def create_pipeline():\n    return 1 / 0", [], r"odd\.py:2: ZeroDivisionError"),
        ("def create_pipeline(:", [], r"odd\.py:1: "),
        ("import nothing_of_this_name", [], r"odd\.py:1: ModuleNotFoundError"),
        ("x = 1\0", [], r"odd\.py: SyntaxError: source code string cannot contain null bytes"),
        ("import sys\nsys.exit(0)", [], r"odd\.py:2: SystemExit: 0"),
        (FILE, ["--param", "x=1"], "no parameter 'x'; there are number, other"),
        (FILE, ["--param", "number=many"], "must be int, as its default, but is 'many'"),
        (FILE, ["--platform", "moon"], "no platform 'moon'"),
        (FILE, ["--resume", "latest"], "no run of two yet"),
        (FILE, ["--home", "odd.py"], r"records of pipelines can't be in .*/odd\.py: it is not a directory"),
        (FILE, ["--home", "/sys/x"], "can't be in /sys/x: (Permission denied|Operation not permitted|Read-only)"),
        (FILE, ["--home", ""], "place of the pipelines' records must not be empty"),
        (FILE + "\nPLATFORMS = {'a': 3}", [], "lists of platform configs"),
        (FILE + "\nPLATFORMS = {'a': {}, 'b': {}}", [], "choose one of a, b with --platform"),
        (FILE + "\nPLATFORMS = {'a': {'Third': [DockerPlatformConfig()]}}", [], "configs for Third, but no component"),
    ],
)
def test_bad_input_is_an_error_in_words_and_nothing_runs(
    run: Run, here: Path, text: str | None, arguments: list[str], words: str
) -> None:
    if text is not None:
        (here / "odd.py").write_text(text)
    result = run("pipeline", "run", "odd.py", *arguments, code=2)
    assert re.search(words, result.err), result.err
    assert not (here / "root").exists()


def test_a_dry_run_shows_every_step_and_makes_nothing_and_then_commands_say_so(run: Run, two: str, here: Path) -> None:
    result = run("pipeline", "run", two, "--dry-run", code=0)
    assert ("# First" in result.out, "class: two:Write" in result.out) == (True, True)
    assert sorted(path.name for path in here.iterdir() if path.name != "__pycache__") == ["two.py"]
    for command in (["runs"], ["show", "latest"], ["lineage", "1"], ["clean"], ["stop", "latest"], ["graph", "latest"]):
        result = run("pipeline", *command, code=2)
        assert "there are no records of pipeline runs" in result.err


@pytest.mark.postgresql
def test_records_may_be_in_postgresql(
    run: Run, two: str, here: Path, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    place = f"{postgres.database(here.name)}?folder={here}/logs"
    monkeypatch.setenv("TFOPERATOR_PIPELINE_HOME", place)
    report = json.loads(run("pipeline", "run", two, "--run-id", "one", "-o", "json", code=0).out)
    assert (report["run"], report["state"]) == ("one", "succeeded")
    assert not (here / ".tfoperator").exists()
    assert json.loads(run("pipeline", "show", "latest", "-o", "json", code=0).out)["owner"] is None

    # Another machine's runner is at work on a run; this runner waits, and sees that the other runner lives.
    with closing(Home(place)) as home, home.store() as store, home.lock(store, "one", seconds=5.0) as held:
        record = store.run("one")
        assert record is not None
        store.put_run(msgspec.structs.replace(record, state="running", term=held.term))
        shown = run("pipeline", "show", "latest", code=0).out
        assert re.search(
            "owner: \\S+, process \\d+, whose lease ends at \\d{4}-\\d\\d-\\d\\d .* UTC if the process", shown
        )
        (listed,) = json.loads(run("pipeline", "runs", "-o", "json", code=0).out)
        assert (listed["state"], listed["owner"]["process"]) == ("running", os.getpid())
        assert f" {socket.gethostname()}" in run("pipeline", "runs", code=0).out.splitlines()[1]
        refused = run("pipeline", "run", two, "--run-id", "one", code=75).err
        assert "run one is under way: held by" in refused
    assert "run one is cancelled" in run("pipeline", "stop", "one", code=0).out
    assert "First of run one has no log" in run("pipeline", "logs", "one", "First", code=0).err
    run("pipeline", "clean", "one", code=0)
    assert run("pipeline", "runs", code=0).err.startswith("there are no pipeline runs")


def test_who_looks_at_a_run_sees_that_its_runner_is_silent_and_where_its_steps_are(run: Run, here: Path) -> None:
    clock = SystemClock()
    home = Home(here / ".tfoperator/pipelines")
    with home.store() as store:
        for _ in range(2):  # of which the first has died
            assert eventually(RunLease(store, "one", clock, seconds=0.01).take)
    run_record = RunRecord(
        "one", "p", "running", "/root", "f", clock.now(), steps={"train": (), "../../etc": ()}, term=2
    )
    with home.store() as store:
        store.put_run(run_record)
        for step in run_record.steps:
            store.begin_execution(run_record, ExecutionRecord(0, "one", step, "Kind", "RUNNING"), clock.now())
    place = {"namespace": "vision"}
    record = LaunchRecord("train", "f", 1, "1a2b", 2, "train-1a2b-2", "u", "created", kind="tfjob", place=place)
    with WorkDirectory(home.step_folder("one", "train")) as work:
        work.save(record)

    def shown() -> str:
        output = run("pipeline", "show", "one", code=0).out
        assert "did not renew its lease, which expired" in output, output
        return output

    text = eventually(shown)
    assert re.search(r"owner: .* can't reach the store; this is owner number 2 of this run", text)
    assert re.search(r"train: interrupted, begun \d+s ago\n    as TFJob vision/train-1a2b-2, attempt 2\n", text), text
    assert f"{socket.gethostname()} (silent)" in run("pipeline", "runs", code=0).out
    document = json.loads(run("pipeline", "show", "one", "-o", "json", code=0).out)
    assert (document["owner"]["overdue"], document["owner"]["number"]) == (True, 2)
    launches = {step["name"]: step.get("launch") for step in document["steps"]}
    assert launches["../../etc"] is None
    assert launches["train"]["name"] == "train-1a2b-2"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("postgresql://me:hidden@host/x", "must not have a password, because"),
        ("postgresql://host/x?password=hidden", "must not have a password, because"),
        ("postgresql://host/x?folder=s3://me@bucket/y", "a URL of an object store must not have credentials"),
        ("postgresql://[host/x?folder=y", "postgresql://...: is not a valid URL"),
        ("postgresql://host/x?folder=ftp://y", "must be a directory, or a URL that begins with s3:"),
        (
            "s3://bucket/prefix",
            "records can't be kept in this kind of place: give a directory, or postgresql://HOST/DB",
        ),
    ],
)
def test_a_place_of_records_that_makes_no_sense_is_refused(run: Run, two: str, place: str, reason: str) -> None:
    for command in (["pipeline", "run", two, "--home"], ["pipeline", "runs", "--home"], ["ui", "--pipelines"]):
        output = run(*command, place, code=2).err
        assert reason in output
        assert "hidden" not in output


IR = Path(__file__).parents[3] / "unit/pipeline/kfp/exits.yaml"


def test_a_file_of_kubeflow_pipelines_needs_a_word_of_the_user_for_what_it_demands(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "exits.yaml"
    dry = ("pipeline", "run", "--dry-run", "--param", "message=x")
    file.write_text(IR.read_text())
    result = run(*dry, str(file), code=2)
    assert "its outputs would be written to /exits-root, which is not below the current folder" in result.err
    assert "--pipeline-root /exits-root" in result.err
    run(*dry, str(file), "--pipeline-root", "/exits-root", code=0)
    run(*dry, str(file), "--pipeline-root", "here", code=0)
    document = yaml.safe_load(IR.read_text())
    executors = {label: {"docker": {"volumes": ["/etc:/x"]}} for label in document["deploymentSpec"]["executors"]}
    ours = {"platforms": {"tfoperator": {"deploymentSpec": {"executors": executors}}}}
    file.write_text(yaml.safe_dump_all([document | {"defaultPipelineRoot": "here"}, ours]))
    refused = run(*dry, str(file), code=2)
    assert ": docker: volumes: /etc" in refused.err
    assert "--allow-privileged" in refused.err
    run(*dry, str(file), "--allow-privileged", code=0)
    run(*dry, str(file), "--containers", "process", code=0)


def test_a_python_file_names_its_own_root(run: Run, two: str) -> None:
    assert "a Python file sets its own" in run("pipeline", "run", two, "--pipeline-root", "x", code=2).err


def test_a_property_of_many_characters_is_shown_in_short() -> None:
    record = ArtifactRecord(1, "Text", "/x", "LIVE", {"long": "x" * 100_000, "short": "y"})
    [line] = lineage_lines(Lineage(record))
    assert len(line) < 700
    assert line.endswith("... (100000 characters) short=y")
