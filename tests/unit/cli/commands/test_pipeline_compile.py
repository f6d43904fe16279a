import base64
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.conftest import Run

FILE = """
from pathlib import Path
from tfoperator.launcher import ExecutorClassSpec, DockerPlatformConfig, PermanentFailure, RetryableFailure
from tfoperator.pipeline import BaseComponent, ChannelParameter, ExecutionParameter, Pipeline, make_spec_class

class Write:
    def do(self, inputs, outputs, properties):
        text = properties["text"]
        if text in ("busy", "broken"):
            raise RetryableFailure(text) if text == "busy" else PermanentFailure(text)
        Path(outputs["out"][0].uri).write_text(text)

class Step(BaseComponent):
    SPEC_CLASS = make_spec_class(inputs={"before": ChannelParameter(type="Text", optional=True)},
                                 outputs={"out": ChannelParameter(type="Text")},
                                 parameters={"text": ExecutionParameter(type=str)})
    EXECUTOR_SPEC = ExecutorClassSpec(Write)

def create_pipeline(root="/data/root", text="a", more=1, note=None, where=Path("/x")):
    steps = [Step(text=f"{text} {note}" if note else text, instance_name="0")]
    for number in range(more):
        steps.append(Step(before=steps[-1].outputs.out, text="b", instance_name=str(number + 1)))
    return Pipeline("chain", root, steps)

PLATFORMS = {"docker": {"default": [DockerPlatformConfig()], "Step.0": [DockerPlatformConfig()]}, "none": {}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "chain.py").write_text(FILE)
    yield tmp_path
    sys.modules.pop("chain", None)


COMPILE = ("pipeline", "compile", "chain.py", "--image", "example.com/p:1", "--platform", "none")


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_the_same_file_gives_the_same_bytes_on_standard_output_or_in_a_file(run: Run, here: Path) -> None:
    result = run(*COMPILE, code=0)
    run(*COMPILE, "-o", "out.yaml", code=0)
    assert (here / "out.yaml").read_text() == result.out
    assert "parameters where: their values can't be given as text" in result.err
    assert "missing/out.yaml: No such file" in run(*COMPILE, "-o", "missing/out.yaml", code=1).err
    assert "is on no volume of --claim, so" in run(*COMPILE, "--claim", "", code=0).err, "no volume keeps the outputs"
    spec = yaml.safe_load(result.out)["spec"]
    assert [(parameter["name"], parameter["value"]) for parameter in spec["arguments"]["parameters"]] == [
        ("root", "/data/root"), ("text", "a"), ("more", "1"), ("note", "")
    ]  # fmt: skip
    assert [task["name"] for task in spec["templates"][0]["dag"]["tasks"]] == ["Step-0", "Step-1"]
    assert run(*COMPILE, "--to", "airflow", code=0).out == run(*COMPILE, "--to", "airflow", code=0).out


def test_options_of_launchers_come_to_their_pods(run: Run) -> None:
    places = ("--home=/mnt/records", "--claim=one:/mnt", "--claim=two:/tmp/", "--pipeline-file=/opt/chain.py")
    limits = ("--service-account=me", "--parallel=9", "--retries=0", "--no-cache", "--attempts=2")
    made = yaml.safe_load(run(*COMPILE, "--template", "--param", "more=3", *places, *limits, code=0).out)
    assert (made["kind"], made["metadata"]["name"]) == ("WorkflowTemplate", "chain")
    spec = made["spec"]
    step = spec["templates"][1]
    assert (spec["parallelism"], spec["serviceAccountName"], step["retryStrategy"]["limit"]) == (9, "me", "0")
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"]] == ["one", "two"]
    assert [mount["mountPath"] for mount in step["container"]["volumeMounts"]] == ["/mnt", "/tmp/"]
    assert step["container"]["args"][1] == "/opt/chain.py"
    assert {"--home=/mnt/records", "--no-cache", "--attempts=2", "--platform=none"} <= set(step["container"]["args"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--platform", "docker"], "no launcher accepts its config: DockerPlatformConfig"),
        (["--platform", "moon"], "there is no platform 'moon'"),
        (["--param", "more=x"], "'more' must be int, as its default"),
        (["--claim", "data"], "--claim data: must have the form NAME:PATH"),
        (["--to", "airflow", "--template"], "--template needs --to argo"),
        (["--image", ""], "the image of the launchers' pods is missing"),
    ],
)
def test_bad_input_is_an_error_in_words_and_nothing_is_written(
    run: Run, here: Path, arguments: list[str], words: str
) -> None:
    result = run(*COMPILE, "-o", "out.yaml", *arguments, code=2)
    assert re.search(words, result.err), result.err
    assert not (here / "out.yaml").exists()


def launched(run: Run, here: Path, step: str, code: int, *more: str, run_id: str = "r") -> str:
    result = run("pipeline", "step", "chain.py", step, "--run-id", run_id, "--platform", "none", "--attempts", "1",
               "--param", f"root={here}/root", *more, code=code)  # fmt: skip
    return result.err


def test_exit_codes_of_a_step_tell_an_orchestrator_whether_to_repeat_it(run: Run, here: Path) -> None:
    text = "--encoded-param=text="
    launched(run, here, "Step.0", 75, text + base64_of("busy"))
    assert "other parameters" in launched(run, here, "Step.0", 2, text + base64_of("broken"))
    launched(run, here, "Step.0", 1, text + base64_of("broken"), run_id="r2")
    hostile = "{{workflow.uid}} $(HOME) ö\n"
    launched(run, here, "Step.0", 0, text + base64_of(hostile), "--encoded-param=note=", run_id="r3")
    assert (here / "root/Step.0/out/r3").read_text() == hostile
    assert "failed: Step.0: broken" in run("pipeline", "finish", "r2", code=0).out
    assert "cancelled: Step.1: not done" in run("pipeline", "finish", "r3", code=0).out
    assert "run r9 has not started any step" in run("pipeline", "finish", "r9", code=0).err
    assert "failed" in run("pipeline", "runs", code=0).out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            ["--steps=0123"],
            "the steps or their order differ from the compiled pipeline. The steps are now: Step.0, Step.1",
        ),
        (["--encoded-param=text=%%"], "--encoded-param text: the value must be UTF-8 text in base64"),
        (["--encoded-param=text=/w=="], "must be UTF-8 text in base64"),
        (["--encoded-param==YQ=="], "must have the form NAME=VALUE"),
        (["--encoded-param=text=YQ=="] * 2, "the same parameter is given twice"),
    ],
)
def test_a_step_of_another_pipeline_or_with_broken_values_is_not_launched(
    run: Run, here: Path, more: list[str], words: str
) -> None:
    assert words in launched(run, here, "Step.0", 2, *more)
    assert not (here / "root").exists()


def test_the_steps_that_were_compiled_are_those_that_run(run: Run, here: Path) -> None:
    made = yaml.safe_load(run(*COMPILE, "--param", "more=2", code=0).out)
    (digest,) = [word for word in made["spec"]["templates"][1]["container"]["args"] if word.startswith("--steps=")]
    launched(run, here, "Step.0", 0, digest, "--param", "more=2")
    assert "Compile the pipeline with these parameters" in launched(run, here, "Step.0", 2, digest, "--param", "more=3")
