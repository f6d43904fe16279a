from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.unit.local.node.pods import container, manifest, view
from tfoperator.api.names import LABEL_REPLICA_TYPE
from tfoperator.local.node.notices import Notices
from tfoperator.local.runtime import LocalPod


def notices(*, enforces: bool = False, engine: bool = False, cpus: int = 2, problem: str = "") -> Notices:
    runtime: Any = SimpleNamespace(enforces_limits=enforces, may_have_gpus=engine)
    return Notices(runtime, cpus=cpus, gpu_problem=problem)


def pod(*, is_replica: bool = True, **limits: Any) -> LocalPod:
    body = manifest("p", container(resources={"limits": limits}))
    body["metadata"]["labels"] = {LABEL_REPLICA_TYPE: "worker"} if is_replica else {}
    return view(body)


def said(about: Notices, one: LocalPod, running: int = 1) -> list[str]:
    return [reason for reason, _ in about.about(one, lambda: running)]


def test_limits_that_nobody_enforces_are_said_once() -> None:
    about = notices()
    assert said(about, pod()) == []
    [(reason, message)] = about.about(pod(memory="1Gi", cpu=1), lambda: 1)
    assert reason == "LimitsNotEnforced"
    assert message.startswith("limits of cpu and memory are not enforced")
    assert said(about, pod(memory="1Gi")) == []
    assert said(notices(enforces=True), pod(memory="1Gi")) == []


def test_more_replicas_than_cpus_are_said_once() -> None:
    about = notices(cpus=2)
    assert said(about, pod(), 2) == []
    assert said(about, pod(is_replica=False), 9) == []
    assert about.about(pod(), lambda: 3) == [
        ("MoreReplicasThanCPUs", "there are more replicas than the 2 CPUs of this machine: they slow each other down")
    ]
    assert said(about, pod(), 4) == []


def test_without_gpus_those_who_want_one_hear_why() -> None:
    wants = pod(**{"nvidia.com/gpu": 1})
    about = notices(problem="no NVIDIA GPU can be used (for a reason)")
    assert said(about, pod()) == []
    [(_, message)] = about.about(wants, lambda: 1)
    assert message == (
        "no NVIDIA GPU can be used (for a reason); what asks for nvidia.com/gpu runs without a GPU of its own"
    )
    assert said(about, wants) == []
    assert said(notices(), wants) == []
    assert said(notices(problem="x", engine=True), wants) == []
