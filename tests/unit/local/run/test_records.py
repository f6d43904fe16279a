"""The parts of a job that are read for the record of its run."""

import json

import pytest

from tfoperator.api.replicas.names import ANNOTATION_PARAMETERS
from tfoperator.cli.program_job import ProgramJob
from tfoperator.local.run.records import RunRecords, parameters_of


@pytest.mark.parametrize(
    ("args", "parameters"),
    [
        ([], {}),
        (["--rate", "0.1", "--fast", "--out=a=b"], {"rate": "0.1", "fast": "yes", "out": "a=b"}),
        (["--rate", "-1", "data", "--cost", "$(HOME) $"], {"rate": "-1", "args": "data", "cost": "$(HOME) $"}),
        (["rate=3", "/a=b", "-v", "--"], {"rate": "3", "args": "/a=b -v --"}),
        (["--long", "x" * 999], {"long": "x" * 197 + "..."}),
    ],
)
def test_arguments_as_parameters(args: list[str], parameters: dict[str, str]) -> None:
    for split, words in ((0, ["a.py"]), (1, ["-u", "a.py"]), (1, ["-m", "a"])):  # manifests may have all in `command`
        job = ProgramJob(name="a", command=["python", *words, *args[:split]], args=args[split:], ps=1).manifest()
        job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"].insert(0, {"args": ["--rate=2"]})
        assert parameters_of(job) == parameters


def test_of_pods_with_one_name_the_last_is_kept_as_it_was() -> None:
    meta = {"namespace": "ns", "name": "a-worker-0"}
    first, last = ({"metadata": {**meta, "uid": uid}, "spec": {}} for uid in "12")
    (kept,) = RunRecords.of([], [json.dumps(obj).encode() for obj in (first, last)], [], {}).objects
    assert kept == {"apiVersion": "v1", "kind": "Pod", **last}


@pytest.mark.parametrize("annotation", ["", "[", "[1]", '{"a": {}}', "x" * 9])
def test_the_parameters_of_a_function_go_before_but_not_what_somebody_else_wrote_there(annotation: str) -> None:
    for parameters, expected in (({"rate": 0.1, ("a", 1): [2]}, {"rate": "0.1", "('a', 1)": "[2]"}), ({}, {})):
        job = ProgramJob(name="a", command=["python"], args=["--rate=1"], parameters=parameters).manifest()
        assert parameters_of(job) == expected
    job["metadata"]["annotations"] = {ANNOTATION_PARAMETERS: annotation}
    assert parameters_of(job) == {"rate": "1"}
