"""The problems of `spec.dataService`: bad numbers, taken ports, templates and journals that can't be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfoperator.api.fields.problems import Severity
from tfoperator.api.v1.types import decode_tfjob
from tfoperator.api.validation.job import validate

CONTAINER = {"name": "tensorflow", "image": "example.com/train:1"}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}


def problems(
    service: dict[str, Any], replicas: dict[str, Any] | None = None, name: str = "mnist", **spec: Any
) -> dict[str, str]:
    """The messages about the data service, and the job's name, by field; warnings begin with `warning: `."""
    replicas = {"Worker": {"template": TEMPLATE}} if replicas is None else replicas
    spec |= {"tfReplicaSpecs": replicas, "dataService": service}
    job = decode_tfjob(json.dumps({"metadata": {"name": name, "namespace": "ns"}, "spec": spec}).encode())
    assert not job.decode_error
    return {
        problem.field: ("warning: " if problem.severity is Severity.WARNING else "") + problem.message
        for problem in validate(job)
        if problem.field.startswith(("spec.dataService", "metadata.name"))
    }


@pytest.mark.parametrize("workers", [1, 1000])
def test_a_number_of_workers_is_all_that_is_needed(workers: int) -> None:
    assert problems({"workers": workers}) == {}


def test_no_workers_too_many_and_none_given() -> None:
    assert problems({"workers": 0}) == {"spec.dataService.workers": "must be 1 or more, but is 0"}
    assert problems({"workers": 1001}) == {"spec.dataService.workers": "must be 1000 or less, but is 1001"}
    assert "spec.dataService.workers" in problems({})


@pytest.mark.parametrize(
    ("port", "message"), [(0, "must be 1 or more, but is 0"), (65536, "must be 65535 or less, but is 65536")]
)
def test_a_port_that_does_not_exist(port: int, message: str) -> None:
    assert problems({"workers": 1, "port": port}) == {"spec.dataService.port": message}


def test_a_port_that_another_container_of_the_template_has() -> None:
    proxy = {"name": "proxy", "image": "p", "ports": [{"containerPort": 5050}]}
    template = {"spec": {"containers": [CONTAINER, proxy]}}
    taken = 'port 5050 is used by container "proxy" of the template: choose another port'
    assert problems({"workers": 1, "template": template}) == {"spec.dataService.port": taken}
    assert problems({"workers": 1, "template": template, "port": 5051}) == {}
    # The program of the data service itself may declare its port.
    own = {"spec": {"containers": [{**CONTAINER, "ports": [{"containerPort": 5050}]}]}}
    assert problems({"workers": 1, "template": own}) == {}


def test_a_port_of_the_nodes_is_a_warning() -> None:
    template = {"spec": {"hostNetwork": True, "containers": [CONTAINER]}}
    (message,) = problems({"workers": 1, "template": template}).values()
    assert message.startswith("warning: with hostNetwork, port 5050 must be free on every node")


def test_a_template_is_checked_like_a_replicas() -> None:
    messages = problems({"workers": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "x"}]}}})
    path = "spec.dataService.template.spec"
    assert (
        messages[f"{path}.restartPolicy"]
        == "warning: has no effect: the operator always restarts the programs of a data service"
    )
    assert messages[f"{path}.containers[0].image"] == "is required"
    assert "tensorflow" in messages[f"{path}.containers"]


def test_without_a_template_a_replica_that_trains_must_have_one() -> None:
    message = (
        "is required, because the job lacks a Chief, Worker or Evaluator with a template, which the operator could use "
        "instead"
    )
    assert problems({"workers": 1}, {"PS": {"replicas": 1}})["spec.dataService.template"] == message
    assert problems({"workers": 1, "template": TEMPLATE}, {"PS": {"replicas": 1}}) == {}


@pytest.mark.parametrize("work_dir", ["journal", "/", "//", "gs://"])
def test_a_journal_at_no_place(work_dir: str) -> None:
    assert "must be an absolute path" in problems({"workers": 1, "workDir": work_dir})["spec.dataService.workDir"]


def test_a_journal_on_no_volume_is_a_warning() -> None:
    warning = 'warning: "/journal" is not on a volume, so the journal is lost with the dispatcher\'s pod'
    assert problems({"workers": 1, "workDir": "/journal"}) == {"spec.dataService.workDir": warning}
    assert problems({"workers": 1, "workDir": "gs://bucket/journal"}) == {}
    mounted = {"spec": {"containers": [{**CONTAINER, "volumeMounts": [{"name": "v", "mountPath": "/journal/"}]}]}}
    assert problems({"workers": 1, "workDir": "/journal", "template": mounted}) == {}
    checkpoint = {"volume": {"persistentVolumeClaim": {"claimName": "c"}}, "mountPath": "/kept"}
    assert problems({"workers": 1, "workDir": "/kept/journal"}, checkpoint=checkpoint) == {}
    assert problems({"workers": 1, "workDir": "/keptnot"}, checkpoint=checkpoint) != {}


def test_a_name_leaves_room_for_the_names_of_all_data_workers() -> None:
    assert problems({"workers": 1}, name="a" * 48) == {}
    assert "metadata.name" in problems({"workers": 1}, name="a" * 49)
