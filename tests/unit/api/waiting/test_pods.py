import json
from datetime import datetime

import msgspec
import pytest

from tests.unit.controller.builders import NOW, after, make_pod, terminated, waiting
from tfoperator.api.waiting import ReasonKind, look_again, why_it_waits
from tfoperator.api.waiting.templates import images_of, mounts_of
from tfoperator.kube.views.objects import Pod
from tfoperator.kube.views.pod_status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    PodCondition,
)

TEMPLATE = msgspec.Raw(
    json.dumps(
        {
            "spec": {
                "containers": [{"name": "tensorflow", "image": "example.com/a:1"}],
                "volumes": [{"configMap": {"name": "settings"}}, {"secret": {"secretName": "token"}}],
            }
        }
    ).encode()
)
STARTING = waiting("PodInitializing")


def text(pod: Pod, now: datetime = NOW) -> str:
    reason = why_it_waits(pod, None, now, TEMPLATE)
    return "" if reason is None else str(reason)


def runs(container: str, since: datetime = NOW, *, restarts: int = 0, last: int | None = None) -> ContainerStatus:
    before = None if last is None else ContainerState(terminated=ContainerStateTerminated(last, "Error"))
    state = ContainerState(running=ContainerStateRunning(since))
    return ContainerStatus(name=container, restart_count=restarts, state=state, last_state=before)


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        (
            "ImagePullBackOff",
            'Back-off pulling image "x": ErrImagePull: rpc error: code = NotFound desc = failed to resolve: not found',
            "ImagePullBackOff: image example.com/a:1 can't be pulled: the registry does not have this image. Next: "
            "correct the image's name, or push the image to the registry",
        ),
        (
            "ErrImagePull",
            "pull access denied, repository does not exist or may require authorization: server message: denied",
            "ImagePullBackOff: image example.com/a:1 can't be pulled: the registry denies access, so the pod needs "
            "credentials, or the image does not exist. Next: add imagePullSecrets to the replica's template, or "
            "correct the image's name",
        ),
        (
            "ErrImagePull",
            'failed to do request: Head "https://r/v2/": dial tcp: lookup r on 10.0.0.1:53: no such host',
            "ImagePullBackOff: image example.com/a:1 can't be pulled: the node can't reach the registry. Next: "
            "correct the registry's name, or ask an administrator to repair the node's connection to it",
        ),
        (
            "InvalidImageName",
            'Failed to apply default image tag "UP:per": couldn\'t parse image name "UP:per": invalid reference format',
            'InvalidImageName: Failed to apply default image tag "UP:per": couldn\'t parse image name "UP:per": '
            "invalid reference format. Next: correct the image's name in the replica's template",
        ),
        (
            "CreateContainerConfigError",
            'configmap "settings" not found',
            'CreateContainerConfigError: configmap "settings" not found. Next: create the missing object, or correct '
            "its name in the replica's template",
        ),
    ],
)
def test_the_reasons_of_kubelets_have_next_steps(reason: str, message: str, expected: str) -> None:
    assert text(make_pod("Worker-0", "Pending", containers=(waiting(reason, message),))) == expected


def test_a_failing_init_container_has_one_text_whether_it_waits_has_failed_or_runs_again() -> None:
    failed = ContainerState(terminated=ContainerStateTerminated(3, "Error"))
    states = (
        msgspec.structs.replace(waiting("CrashLoopBackOff", "back-off 10s", container="fetch"), last_state=failed),
        msgspec.structs.replace(terminated(3, reason="Error", container="fetch")),
        runs("fetch", after(3), restarts=1, last=3),
    )
    texts = {
        text(make_pod("Worker-0", "Pending", init_containers=(state,), containers=(STARTING,))) for state in states
    }
    assert texts == {
        "init container fetch: CrashLoopBackOff: exit code 3 since 12:00:00 UTC. Next: read the log of the "
        "container: kubectl logs POD -c fetch --previous"
    }


def test_an_init_container_that_runs_for_long_is_named_with_its_start() -> None:
    pod = make_pod("Worker-0", "Pending", init_containers=(runs("fetch"),), containers=(STARTING,))
    assert (text(pod, after(3)), look_again(pod, after(3))) == ("", 1.0)
    assert text(pod, after(4)).startswith(
        "InitContainerRuns: init container fetch runs since 12:00:00 UTC. Next: if the init container takes too long"
    )
    assert look_again(pod, after(4)) is None


def test_a_sidecar_before_the_init_container_that_runs_is_not_blamed() -> None:
    pod = make_pod(
        "Worker-0", "Pending", init_containers=(runs("proxy"), runs("fetch", after(2))), containers=(STARTING,)
    )
    assert text(pod, after(60)).startswith("InitContainerRuns: init container fetch runs since 12:00:02 UTC")


def test_a_pod_that_its_node_prepares_for_long_names_what_it_mounts() -> None:
    pod = make_pod(
        "Worker-0",
        "Pending",
        node="n1",
        containers=(waiting("ContainerCreating"),),
        conditions=(PodCondition("PodReadyToStartContainers", "False"),),
    )
    assert (text(pod, after(2)), look_again(pod, after(2))) == ("", 2.0)
    assert text(pod, after(4)).startswith(
        "PodIsPrepared: the kubelet of its node prepares the pod, which mounts ConfigMap settings, Secret token, "
        "since 12:00:00 UTC. "
    )
    pulls = msgspec.structs.replace(
        pod,
        status=msgspec.structs.replace(pod.status, conditions=(PodCondition("PodReadyToStartContainers", "True"),)),
    )
    assert (text(pulls, after(60)), look_again(pulls, NOW)) == ("", None)


def test_a_node_that_does_not_answer_and_one_that_is_lost_are_named() -> None:
    silent = (PodCondition("Ready", "False"),)
    pod = make_pod("Worker-0", node="n2", conditions=silent)
    assert text(pod).startswith("NodeDoesNotAnswer: the kubelet of node n2 does not answer. Next: ")
    taken = (*silent, PodCondition("DisruptionTarget", "True", "DeletionByTaintManager"))
    lost = why_it_waits(make_pod("Worker-0", node="n2", conditions=taken, deleted=NOW), None, NOW)
    assert lost is not None
    assert (lost.kind, lost.message) == (ReasonKind.NODE_LOST, "node n2 is lost")


def test_a_pod_that_runs_or_has_ended_waits_for_nothing() -> None:
    assert text(make_pod("Worker-0")) == ""
    assert text(make_pod("Worker-0", "Succeeded", exit_code=0)) == ""
    assert text(make_pod("Worker-0", "Failed", exit_code=1)) == ""


def test_what_a_template_mounts_is_known_but_for_what_is_optional() -> None:
    template = {
        "spec": {
            "initContainers": [{"name": "i", "image": "init:1"}],
            "containers": [{"name": "tensorflow", "image": "train:1"}],
            "volumes": [
                {"name": "a", "configMap": {"name": "settings"}},
                {"name": "b", "secret": {"secretName": "token"}},
                {"name": "c", "secret": {"secretName": "no-need", "optional": True}},
                {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
                {
                    "name": "e",
                    "projected": {"sources": [{"secret": {"name": "more"}}, {"configMap": {"name": "settings"}}]},
                },
                {"name": "f", "emptyDir": {}},
            ],
        }
    }
    raw = msgspec.Raw(json.dumps(template).encode())
    assert images_of(raw) == {"i": "init:1", "tensorflow": "train:1"}
    assert mounts_of(raw) == ("ConfigMap settings", "Secret token", "PersistentVolumeClaim data", "Secret more")
    for unreadable in (b"\0hash", b"5"):
        assert (images_of(msgspec.Raw(unreadable)), mounts_of(msgspec.Raw(unreadable))) == ({}, ())
