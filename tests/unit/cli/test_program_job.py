from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.api.conversion import check
from tfoperator.cli.program_job import ProgramJob, is_program, job_name
from tfoperator.kube.views.pod_spec import GPU


def replicas(job: ProgramJob) -> dict[str, int]:
    return {kind: spec["replicas"] for kind, spec in job.manifest()["spec"]["tfReplicaSpecs"].items()}


def container(job: ProgramJob, kind: str = "Worker") -> dict[str, Any]:
    [only] = job.manifest()["spec"]["tfReplicaSpecs"][kind]["template"]["spec"]["containers"]
    return dict(only)


def job(**options: Any) -> ProgramJob:
    return ProgramJob(name="train", command=["python", "train.py"], **options)


def test_the_default_is_one_worker_with_arguments_as_typed_gpus_are_for_those_who_train_and_restarts_bounded() -> None:
    assert replicas(job()) == {"Worker": 1}
    assert job().manifest()["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] == "Never"
    assert container(job()) == {"name": "tensorflow", "image": "local/program", "command": ["python", "train.py"]}
    made = container(ProgramJob(name="x", command=["python", "a$b.py"], args=["$(HOME)", "$$", "plain"]))
    assert (made["command"][1], made["args"]) == ("a$$b.py", ["$$(HOME)", "$$$$", "plain"])
    every = job(chief=True, workers=1, ps=1, evaluator=True, gpus=2, max_restarts=3)
    limits = {kind: container(every, kind).get("resources") for kind in replicas(every)}
    assert limits == {"Chief": {"limits": {GPU: 2}}, "Worker": {"limits": {GPU: 2}}, "PS": None, "Evaluator": None}
    spec = every.manifest()["spec"]
    assert (spec["runPolicy"], spec["tfReplicaSpecs"]["Worker"]["restartPolicy"]) == ({"backoffLimit": 3}, "OnFailure")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"chief": True}, {"Chief": 1}),
        ({"chief": True, "workers": 0}, {"Chief": 1}),
        ({"chief": True, "workers": 2, "ps": 3, "evaluator": True}, {"Chief": 1, "Worker": 2, "PS": 3, "Evaluator": 1}),
        ({"ps": 1}, {"Worker": 1, "PS": 1}),
    ],
)
def test_replicas(options: dict[str, Any], expected: dict[str, int]) -> None:
    assert replicas(job(**options)) == expected


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("train.py", "train"),
        ("/some/where/My_Train-2.py", "my-train-2"),
        ("2024_run.py", "run"),
        ("__main__.py", "main"),
        ("名.py", "job"),
        ("-.py", "job"),
    ],
)
def test_a_program_is_known_by_its_name_and_a_job_named_by_it(file: str, name: str) -> None:
    assert is_program(file)
    assert job_name(file) == name
    assert [other for other in ("d.pyc", "b.yaml", "-", "c", "py") if is_program(other)] == ["d.pyc"]


@given(st.text(max_size=80), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans(), st.integers(0, 2))
def test_whatever_is_asked_for_is_a_valid_job(
    stem: str, workers: int, ps: int, chief: bool, evaluator: bool, gpus: int
) -> None:
    options = {"workers": workers or None, "ps": ps, "chief": chief, "evaluator": evaluator, "gpus": gpus}
    asked = ProgramJob(name=job_name(stem.replace("/", "") + ".py"), command=["python", "x.py"], **options)
    assert [problem for problem in check(asked.manifest())[1] if problem.severity == "error"] == []
