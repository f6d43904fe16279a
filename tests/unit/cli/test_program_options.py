from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Run
from tfoperator.api.loading import parse_manifests
from tfoperator.cli.other_programs import refuse_other_programs
from tfoperator.cli.program_job import WorkerNumbers
from tfoperator.cli.program_options import ProgramOptions, ScopeOption, check_checkpoints, program_job
from tfoperator.cli.terminal.errors import CliError
from tfoperator.local.runtime.selection import RuntimeName, RuntimeOptions


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('trained')\n")
    return tmp_path


def test_what_runs_is_a_program_with_its_own_words_a_module_or_a_command_of_ones_own(folder: Path) -> None:
    assert program_job(["job.yaml", "more.yaml"], ProgramOptions()) is None, "a manifest is no program"
    job = program_job(["train.py", "--epochs", "3"], ProgramOptions(workers=WorkerNumbers(2, 2)))
    assert (job.name, job.command, job.args, job.workers) == ("train", ["python", "train.py"], ["--epochs", "3"], 2)
    elsewhere = program_job(["train.py"], ProgramOptions(), RuntimeOptions(work_dir=Path("/")))
    assert elsewhere.command == ["python", str(folder / "train.py")]
    module = program_job(["pkg.fit", "-x"], ProgramOptions(module=True))
    assert (module.name, module.command, module.args) == ("fit", ["python", "-m", "pkg.fit"], ["-x"])
    options = ProgramOptions(command="sh -c 'exec train'", image="i:1")
    own = program_job(["train.py"], options, RuntimeOptions(RuntimeName.DOCKER))
    assert (own.command, own.image) == (["sh", "-c", "exec train"], "i:1")


def test_options_become_fields_of_the_job(folder: Path) -> None:
    env = ["RATE=$0.1", "EMPTY=", "A=b=c"]
    fields = {"checkpoint": Path("kept"), "tensorboard": "logs", "stall": "90s", "grace": "1m"}
    options = ProgramOptions(ps=1, gpus=1, env=env, cpus="2", memory="4Gi", **fields)
    spec = program_job(["train.py"], options).manifest()["spec"]
    assert spec["runPolicy"] == {"progressDeadlineSeconds": 90}
    assert spec["checkpoint"]["volume"]["hostPath"]["path"] == str(folder / "kept")
    assert spec["tensorBoard"]["logDir"] == spec["tensorBoard"]["volumeMounts"][0]["mountPath"] == str(folder / "logs")
    for kind, gpus in (("PS", {}), ("Worker", {"nvidia.com/gpu": 1})):
        pod = spec["tfReplicaSpecs"][kind]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] == 60
        assert pod["containers"][0]["resources"] == {"limits": {"cpu": "2", "memory": "4Gi", **gpus}}
        variables = {variable["name"]: variable["value"] for variable in pod["containers"][0]["env"]}
        assert variables == {"RATE": "$$0.1", "EMPTY": "", "A": "b=c"}
    for emit, grace in ((False, 10), (True, None)):  # a cluster decides on the time to end
        assert program_job(["train.py"], ProgramOptions(emit_yaml=emit, image="i:1")).grace_seconds == grace


def test_data_workers_become_a_data_service_with_a_journal_beside_the_checkpoints(folder: Path) -> None:
    assert "dataService" not in program_job(["train.py"], ProgramOptions()).manifest()["spec"]
    spec = program_job(["train.py"], ProgramOptions(data_workers=2)).manifest()["spec"]
    assert spec["dataService"] == {"workers": 2}
    options = ProgramOptions(data_workers=2, checkpoint=Path("kept"))
    spec = program_job(["train.py"], options).manifest()["spec"]
    assert spec["dataService"] == {"workers": 2, "workDir": "/checkpoint/.data-service"}


def test_checkpoints_of_an_earlier_run_are_gone_on_from_only_when_asked(folder: Path) -> None:
    (folder / "kept" / "ns" / "train").mkdir(parents=True)
    options = ProgramOptions(checkpoint=Path("kept"))
    job = program_job(["train.py"], options)
    check_checkpoints(job, options, "ns")
    (folder / "kept" / "ns" / "train" / "1.ckpt").touch()
    with pytest.raises(CliError, match="checkpoints of an earlier run of train"):
        check_checkpoints(job, options, "ns")
    check_checkpoints(job, options, "other")
    again = ProgramOptions(checkpoint=Path("kept"), resume=True)
    check_checkpoints(program_job(["train.py"], again), again, "ns")
    alone = program_job(["train.py"], ProgramOptions(resume=True))
    assert alone.checkpoints == str(folder / ".tfoperator" / "checkpoints")


DOCKER = RuntimeName.DOCKER


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        ("nosuch.py", {}, "nosuch.py: no such file"),
        ("train.py", {"workers": WorkerNumbers(0, 0)}, "the job would have no replica that trains"),
        (
            "train.py",
            {"restart_scope": ScopeOption.JOB},
            "job has no effect without --max-restarts: give --max-restarts, too",
        ),
        ("train.py", {"emit_yaml": True}, "--emit-yaml: the image that contains the program is not given"),
        ("train.py", {"runtime": DOCKER}, "--runtime docker: the image that contains the program is not given"),
        ("train.py", {"command": "'"}, "--command: No closing quotation"),
        ("train.py", {"command": " "}, "--command: is empty"),
        ("train.py", {"env": ["A"]}, "--env A: must have the form NAME=VALUE"),
        (
            "train.py",
            {"resume": True, "image": "i", "runtime": DOCKER},
            "--resume: this folder is on this machine only",
        ),
        (
            "train.py",
            {"tensorboard": "x", "emit_yaml": True, "image": "i"},
            "--tensorboard: this folder is on this machine only",
        ),
        ("job.yaml", {"grace": "1s"}, "--grace: this option is for a program"),
        ("job.yaml", {"workers": WorkerNumbers(2, 2)}, "--workers: this option is for a program"),
        ("job.yaml", {"ps": 1, "max_restarts": 2}, "--ps, --max-restarts: these options are for a program"),
        ("job.yaml train.py", {}, "job.yaml and train.py: give either"),
    ],
)
def test_what_makes_no_sense_is_refused(words: str, options: dict[str, Any], message: str) -> None:
    options = dict(options)
    runtime = options.pop("runtime", RuntimeName.PROCESS)
    with pytest.raises(CliError) as error:
        program_job(words.split(), ProgramOptions(**options), RuntimeOptions(runtime))
    assert message in error.value.message


ODD = "x\udcff"  # as Python has an argument or a file name of the bytes 78 ff


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["train.py", ODD], {}),
        ([ODD], {"module": True}),
        *(
            (["train.py"], options)
            for options in ({"command": ODD}, {"image": ODD}, {"env": [f"A={ODD}"]}, {"name": ODD})
        ),
    ],
)
def test_what_is_no_utf8_can_not_be_in_a_job(words: list[str], options: dict[str, Any]) -> None:
    with pytest.raises(CliError, match=r"x\udcff.*: must be UTF-8 text"):
        program_job(words, ProgramOptions(**options))


def test_a_program_whose_folder_is_no_utf8_runs_there_and_not_from_elsewhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ODD).mkdir()
    (folder / ODD / "train.py").touch()
    monkeypatch.chdir(folder / ODD)
    assert program_job(["train.py"], ProgramOptions()) is not None
    with pytest.raises(CliError, match="must be UTF-8 text"):
        program_job(["train.py"], ProgramOptions(), RuntimeOptions(work_dir=folder))


def test_the_job_for_a_cluster_is_printed_and_nothing_is_started(run: Run, folder: Path) -> None:
    result = run("run", "train.py", "--workers", "2", "--gpus", "1", "--image", "me/train:1", "--emit-yaml", code=0)
    [manifest] = parse_manifests(result.out)
    worker = manifest.obj["spec"]["tfReplicaSpecs"]["Worker"]
    [container] = worker["template"]["spec"]["containers"]
    assert (worker["replicas"], container["image"]) == (2, "me/train:1")
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert not (folder / ".tfoperator").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epochs", "3"], "-- --epochs"),
        (["--name", "No Name"], "metadata.name"),
        (["--workdir", "nowhere"], "is not a directory"),
        (["--workdir", ".", "--runtime", "docker"], "can't be used with containers"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_told_and_nothing_is_started(
    run: Run, folder: Path, arguments: list[str], words: str
) -> None:
    assert words in run("run", "train.py", *arguments, code=2).err
    assert "-- --epochs" not in run("run", "job.yaml", "--epochs", "3", code=2).err
    assert not (folder / ".tfoperator").exists()


def test_a_stall_can_not_be_found_sooner_on_a_laptop_than_in_a_cluster(folder: Path) -> None:
    assert program_job(["train.py"], ProgramOptions(stall="30s")).stall_seconds == 30
    with pytest.raises(CliError, match="--stall: 29s must be 30s or more"):
        program_job(["train.py"], ProgramOptions(stall="29s"))


def test_a_collective_is_started_again_together_and_an_evaluator_is_not_in_its_cluster(folder: Path) -> None:
    plain = program_job(["train.py"], ProgramOptions(workers=WorkerNumbers(2, 2), max_restarts=3)).manifest()["spec"]
    assert plain["runPolicy"] == {"backoffLimit": 3}
    assert "evaluatorInCluster" not in plain
    options = ProgramOptions(workers=WorkerNumbers(2, 2), max_restarts=3, restart_scope=ScopeOption.JOB, evaluator=True)
    spec = program_job(["train.py"], options).manifest()["spec"]
    assert spec["runPolicy"] == {"backoffLimit": 3, "restartScope": "Job"}
    assert spec["evaluatorInCluster"] is False


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("x.ipynb", "{}", "x.ipynb: is a notebook", "nbconvert --to script x.ipynb && tfoperator run x.py --workers 2"),
        ("my x.ipynb", "{}", "my x.ipynb: is a notebook", "--to script 'my x.ipynb' && tfoperator run 'my x.py'"),
        ("x.sh", "python train.py", "x.sh: is a shell's script", "[sh, x.sh]"),
        ("x", "#!/usr/bin/env -S bash -e\necho", "x: is a script of bash", "[bash, x]"),
        ("x", "#! /usr/bin/python3\n", "x: its first line names Python", "tfoperator run x.py"),
    ],
)
def test_what_is_neither_a_program_nor_a_manifest_is_named_with_how_it_is_run(
    folder: Path, name: str, content: str, message: str, hint: str
) -> None:
    (folder / name).write_text(content)
    with pytest.raises(CliError) as refused:
        program_job([name], ProgramOptions())
    assert refused.value.message.startswith(message)
    assert hint in refused.value.hint


@pytest.mark.parametrize("content", ["kind: TFJob", "# a comment", "{}", "", "#"])
def test_a_manifest_by_any_name_is_none_of_these(folder: Path, content: str) -> None:
    (folder / "job").write_text(content)
    for file in ("job", "-", "nosuch.sh"):
        refuse_other_programs(file)


def test_a_range_of_workers_makes_an_elastic_job_that_begins_with_the_cpus_of_this_machine(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfoperator.cli.program_options.usable_cpus", lambda: 3)
    some = ProgramOptions(workers=WorkerNumbers(2, 8))
    assert (program_job(["train.py"], some).workers, program_job(["train.py"], some).elastic) == (3, (2, 8))
    assert program_job(["train.py"], ProgramOptions(workers=WorkerNumbers(4, 8))).workers == 4, "never below the least"
    assert program_job(["train.py"], ProgramOptions(workers=WorkerNumbers(1, 2))).workers == 2, "never above the most"
    assert program_job(["train.py"], ProgramOptions(workers=WorkerNumbers(4, 4))).elastic is None, "exact"
    result = run("run", "train.py", "--workers", "1..4", "--image", "me/train:1", "--emit-yaml", code=0)
    (manifest,) = parse_manifests(result.out)
    spec = manifest.obj["spec"]
    assert spec["elasticPolicy"] == {"minReplicas": 1, "maxReplicas": 4}
    assert spec["tfReplicaSpecs"]["Worker"]["replicas"] == 4, "a cluster has its own machines"


@pytest.mark.parametrize("text", ["4..1", "0..3", "1..", "..3", "a", "1..20000", "-1", "1...3"])
def test_a_range_of_workers_that_makes_no_sense_is_refused(run: Run, text: str) -> None:
    assert "--workers" in run("run", "train.py", f"--workers={text}", code=2).err


def test_a_range_of_workers_is_refused_with_parameter_servers() -> None:
    with pytest.raises(CliError, match="elastic jobs have no parameter servers"):
        program_job(["train.py"], ProgramOptions(workers=WorkerNumbers(1, 3), ps=1))
