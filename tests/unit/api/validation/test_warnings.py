"""A list of hosts that no program can be started with is told of before anybody waits for it."""

import copy
import re
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from hack.pod_environment import variables
from tests.unit.api.samples import tfjob
from tests.unit.api.validation.complaints import complaints, warnings, with_template
from tests.unit.controller.builders import OPTIONS, make_job, planned
from tfoperator.api import errors
from tfoperator.api.kueue.queues import QUEUE_LABEL
from tfoperator.api.replicas.host_lists import (
    ALWAYS_ACCEPTED,
    MAX_TEXT_LENGTH,
    MAX_TF_CONFIG_LENGTH,
    PER_HOST,
    HostList,
    too_long,
)
from tfoperator.api.v1.choices import ReplicaType
from tfoperator.api.validation.job import validate
from tfoperator.api.validation.manifest import validate_manifest

LONG = "a-job-with-a-long-name-because-people-do-that"


def host_warnings(replicas: dict[str, int], **spec: Any) -> list[str]:
    job = make_job(replicas, runPolicy={"cleanPodPolicy": "Running"}, **spec)
    return [str(problem) for problem in validate(job) if "their hosts" in problem.message]


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
        fits, too_many = (
            (fits, middle) if host_warnings({"PS": 20, "Worker": middle}, **options) else (middle, too_many)
        )
    assert 0 <= MAX_TF_CONFIG_LENGTH - len(tf_config({"PS": 20, "Worker": fits}, **options)) < 500


def test_it_says_what_to_do_and_a_name_that_is_to_be_generated_counts() -> None:
    (problem,) = host_warnings({"Worker": 5000})
    shown = re.search(r"about ([\d,]+) characters", problem)
    assert int(shown[1].replace(",", "")) == pytest.approx(len(tf_config({"Worker": 5000})), rel=0.001)
    assert problem.startswith("spec.tfReplicaSpecs: has so many replicas that the list of their hosts has about ")
    assert problem.endswith("set spec.enableDynamicWorker: true, so that the list contains only the parameter servers")
    assert host_warnings({"Worker": 5000}, enableDynamicWorker=True) == []
    job = make_job({"Worker": 2000}, runPolicy={"cleanPodPolicy": "Running"})
    long = {"name": "", "generate_name": f"{LONG}-"}
    named = msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, **long))
    assert [str(complaint) for complaint in validate(job) if "their hosts" in complaint.message] == []
    assert len([complaint for complaint in validate(named) if "their hosts" in complaint.message]) == 1


@pytest.mark.parametrize("dynamic", [True, False])
def test_parameter_servers_are_told_of_in_any_case(dynamic: bool) -> None:
    replicas = {"PS": 5000, "Worker": 2, "Chief": 1}
    (problem,) = host_warnings(replicas, enableDynamicWorker=dynamic)
    assert problem.endswith("; reduce the number of replicas")
    assert host_warnings({**replicas, "PS": 3000}, enableDynamicWorker=dynamic) == []
    (only,) = host_warnings({"PS": 5000})
    assert only.endswith("set spec.enableDynamicWorker: true, so that the list contains only the parameter servers")
    assert host_warnings({"PS": 5000}, enableDynamicWorker=True) == [], "they know themselves only"


def test_arguments_are_bounded_as_well() -> None:
    options = {"enableDynamicWorker": True, "clusterArguments": True}
    (problem,) = host_warnings({"Worker": 5000}, **options)
    assert problem.endswith("; set spec.clusterArguments: false, so that the arguments don't contain the hosts")
    fits, too_many = 4000, 5000
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        fits, too_many = (fits, middle) if host_warnings({"Worker": middle}, **options) else (middle, too_many)
    made = next(iter(planned(make_job({"Worker": fits}, **options), services=()).creations("pods")))
    longest = max(map(len, made.body["spec"]["containers"][0]["args"]))
    assert 0 <= MAX_TEXT_LENGTH - longest < 500
    assert host_warnings({"Worker": 3000, "PS": 3000}, **options) == []
    (both,) = host_warnings({"Worker": 5000}, clusterArguments=True)
    assert both.endswith(
        "set spec.enableDynamicWorker: true, so that the list contains only the parameter servers, and set "
        "spec.clusterArguments: false, so that the arguments don't contain the hosts"
    )


def test_the_operator_tells_of_it_as_it_is_configured() -> None:
    def events(workers: int, **options: Any) -> list[str]:
        plan = planned(make_job({"Worker": workers}), services=(), options=msgspec.structs.replace(OPTIONS, **options))
        return [event.message for event in plan.events if event.reason == "TooManyReplicas"]

    assert events(4000) == []
    (problem,) = events(4000, cluster_domain="cluster.local")
    assert problem.startswith("spec.tfReplicaSpecs: has so many replicas that the list of their hosts has about 1")
    assert len(events(5000)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
@pytest.mark.parametrize("replica_type", [ReplicaType.PS, ReplicaType.WORKER, ReplicaType.CHIEF])
@pytest.mark.parametrize("size", [1, 2, 2000])
@pytest.mark.parametrize("others", [{}, {ReplicaType.WORKER: HostList(100, 3000)}])
def test_what_needs_no_look_is_accepted_in_any_case(
    replica_type: ReplicaType, size: int, others: dict[ReplicaType, HostList]
) -> None:
    left = ALWAYS_ACCEPTED - sum(host_list.characters + host_list.size * PER_HOST for host_list in others.values())
    hosts = {**others, replica_type: HostList(size, left - size * PER_HOST)}
    for dynamic in (True, False):
        for arguments in (True, False):
            assert too_long(hosts, dynamic=dynamic, arguments=arguments) == ""


def test_one_character_more_may_be_too_many_and_linux_takes_no_more() -> None:
    hosts = {ReplicaType.WORKER: HostList(2, ALWAYS_ACCEPTED - 2 * PER_HOST + 1)}
    assert too_long(hosts, dynamic=False, arguments=False)
    subprocess.run(["/bin/true"], env={"TF_CONFIG": "x" * MAX_TF_CONFIG_LENGTH}, check=True)
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["/bin/true"], env={"TF_CONFIG": "x" * (MAX_TF_CONFIG_LENGTH + 1)}, check=True)


def queued(replicas: dict[str, Any], queue: str = "research") -> dict[str, Any]:
    manifest = tfjob(replicas)
    manifest["metadata"]["labels"] = {QUEUE_LABEL: queue} if queue else {}
    return manifest


def test_replica_types_that_kueue_does_not_know_are_warned_of() -> None:
    manifest = queued({"worker": {"replicas": 6}, "Chief": {}})
    assert complaints(manifest) == []
    assert warnings(manifest) == [
        "spec.tfReplicaSpecs[worker]: is not counted by queue research, because Kueue knows this type only by the "
        "name Worker: the pods run without quota. Rename worker to Worker"
    ]
    assert warnings(queued({"worker": {}, "chief": {}}, queue="")) == []
    assert warnings(queued({"Worker": {}, "Chief": {}})) == []


@pytest.mark.parametrize("template", [None, {"metadata": {}, "spec": {"containers": None}}])
def test_kueue_can_not_queue_a_parameter_server_without_a_template(template: object) -> None:
    manifest = queued({"PS": {"template": template}, "Worker": {}})
    assert complaints(manifest) == []
    assert any("the job stays in queue research" in warning for warning in warnings(manifest))


def test_no_quota_counts_the_devices_of_a_tensorboard() -> None:
    manifest = queued({"Worker": {}})
    manifest["spec"]["tensorBoard"] = {"logDir": "gs://b/logs", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    assert complaints(manifest) == []
    [text] = [warning for warning in warnings(manifest) if "tensorBoard" in warning]
    assert "requests nvidia.com/gpu, but the quota of queue research does not count a TensorBoard" in text
    assert "Remove nvidia.com/gpu from spec.tensorBoard.resources" in text
    del manifest["metadata"]["labels"]
    assert not [warning for warning in warnings(manifest) if "does not count a TensorBoard" in warning]


@pytest.mark.parametrize(
    ("grace", "seconds", "replica", "warned"),
    [
        ({}, "30.4", "worker-0", "is 30 s, but the last save took 30 s"),
        ({}, "29.9", "worker-0", None),
        (
            {"spec.terminationGracePeriodSeconds": 60},
            "60",
            "worker-0",
            "Set at least 120 s, which is enough for a save and a step",
        ),
        ({"spec.terminationGracePeriodSeconds": 61}, "60", "worker-0", None),
        ({"spec.terminationGracePeriodSeconds": "60"}, "1e99", "worker-0", None),
        ({}, "31", "chief-0", None),
        ({}, "slow", "worker-0", None),
    ],
)
def test_a_save_that_a_kill_would_cut_off_is_warned_of(
    grace: dict[str, Any], seconds: str, replica: str, warned: str | None
) -> None:
    manifest = with_template(grace)
    saved = [{"name": "saved_step", "value": "5"}, {"name": "save_seconds", "value": seconds}]
    manifest["status"] = {"progress": {"replica": replica, "metrics": saved}}
    texts = [warning for warning in warnings(manifest) if "save" in warning]
    assert [bool(warned and warned in text) for text in texts] == ([True] if warned else [])


@pytest.mark.parametrize("template", [[], "x", {"spec": "x"}, {"spec": [1]}])
def test_a_template_that_can_not_be_read_is_told_of_by_a_job_that_saves_too(template: object) -> None:
    manifest = tfjob({"Worker": {"template": template}})
    saved = {"progress": {"replica": "worker-0", "metrics": [{"name": "save_seconds", "value": "60"}]}}
    assert errors(validate_manifest(manifest | {"status": saved})) == errors(validate_manifest(manifest)) != ()


@pytest.mark.parametrize("status", ["x", [], {"progress": 1}, {"progress": {"replica": 3, "metrics": [1]}}, None])
def test_a_status_of_another_shape_is_nobodys_problem(status: object) -> None:
    assert validate_manifest(tfjob({"Worker": {}}) | {"status": status}) == ()


@pytest.mark.parametrize(
    ("replicas", "place"),
    [
        ({"Worker": {"replicas": 2}}, "spec.tfReplicaSpecs[Worker].template.spec.containers[0].env[1]"),
        ({"Worker": {}, "PS": {}}, "spec.tfReplicaSpecs[Worker].template.spec.containers[0].env[1]"),
        ({"Worker": {}}, None),
    ],
)
def test_a_tf_config_of_the_users_is_warned_of_where_the_operator_overwrites_it(
    replicas: dict[str, dict[str, Any]], place: str | None
) -> None:
    manifest = tfjob(replicas)
    worker = manifest["spec"]["tfReplicaSpecs"]["Worker"]
    worker["template"] = copy.deepcopy(worker["template"])
    sidecar = {"name": "sidecar", "image": "x", "env": [{"name": "TF_CONFIG", "value": "its own"}]}
    worker["template"]["spec"]["containers"].append(sidecar)
    worker["template"]["spec"]["containers"][0]["env"] = [{"name": "A"}, {"name": "TF_CONFIG", "value": "{}"}]
    texts = [warning for warning in warnings(manifest) if "TF_CONFIG has no effect" in warning]
    assert [text.partition(": ")[0] for text in texts] == ([] if place is None else [place])
