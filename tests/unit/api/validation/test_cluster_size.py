"""A list of hosts that no program can be started with is told of before anybody waits for it."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from hack.pod_environment import variables
from tests.unit.controller.builders import make_job, planned
from tfoperator.api.validation import validate
from tfoperator.api.validation.limits import MAX_VARIABLE_LENGTH

LONG = "a-job-with-a-long-name-because-people-do-that"


def said(replicas: dict[str, int], **spec: Any) -> list[str]:
    job = make_job(replicas, runPolicy={"cleanPodPolicy": "Running"}, **spec)
    return [str(problem) for problem in validate(job) if "characters" in problem.message]


def tf_config(replicas: dict[str, int], **spec: Any) -> str:
    made = next(iter(planned(make_job(replicas, **spec), services=()).creations("pods")))
    return variables(made.body["spec"]["containers"][0])["TF_CONFIG"]


@pytest.mark.parametrize("network", ["PerReplica", "PerJob"])
@pytest.mark.parametrize("name", ["m", LONG])
def test_the_warning_comes_where_it_has_to(network: str, name: str) -> None:
    options = {"network": network, "name": name}
    fits, too_many = 100, 10_000
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        fits, too_many = (fits, middle) if said({"PS": 20, "Worker": middle}, **options) else (middle, too_many)
    assert 0 <= MAX_VARIABLE_LENGTH - len(tf_config({"PS": 20, "Worker": fits}, **options)) < 500


def test_it_says_what_to_do() -> None:
    (problem,) = said({"Worker": 5000})
    shown = re.search(r"about ([\d,]+) characters", problem)
    assert shown is not None
    assert int(shown[1].replace(",", "")) == pytest.approx(len(tf_config({"Worker": 5000})), rel=0.001)
    assert problem.startswith("spec.tfReplicaSpecs: has so many replicas that the list of their hosts has about ")
    assert problem.endswith("enableDynamicWorker: true lists only a few")
    assert said({"Worker": 5000}, enableDynamicWorker=True) == []


def test_arguments_are_bounded_as_well() -> None:
    (problem,) = said({"Worker": 5000}, enableDynamicWorker=True, clusterArguments=True)
    assert problem.endswith("clusterArguments: false lists no hosts")
    assert said({"Worker": 3000, "PS": 3000}, enableDynamicWorker=True, clusterArguments=True) == []
    assert len(said({"Worker": 3000, "PS": 3000}, clusterArguments=True)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_linux_takes_no_more() -> None:
    subprocess.run(["/bin/true"], env={"TF_CONFIG": "x" * MAX_VARIABLE_LENGTH}, check=True)
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["/bin/true"], env={"TF_CONFIG": "x" * (MAX_VARIABLE_LENGTH + 1)}, check=True)
