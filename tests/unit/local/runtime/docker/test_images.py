"""Behaviour that only a registry could show: pulls that succeed, take their time, fail and are tried again."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from docker.errors import DockerException, ImageNotFound

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.unit.local.node.pods import container, manifest, view
from tfoperator.kube.views.pod_spec import Container
from tfoperator.local.runtime.docker.images import PULL_BACKOFF_BASE, PULL_BACKOFF_CAP, Images, pull_policy
from tfoperator.local.runtime.protocol import LaunchError, StartLater


class Registry:
    """An engine with images, and what it would find elsewhere. A pull takes until `arrived` is set."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.pulls: list[tuple[str, str]] = []
        self.problem: str | DockerException = ""
        self.arrived = threading.Event()
        self.arrived.set()

    def inspect_image(self, name: str) -> None:
        if name not in self.there:
            raise ImageNotFound(name)

    def pull(self, repository: str, *, tag: str, stream: bool, decode: bool) -> Iterator[dict[str, Any]]:
        assert stream
        assert decode
        self.pulls.append((repository, tag))
        if isinstance(self.problem, DockerException):
            raise self.problem
        yield {"status": "Pulling"}
        assert self.arrived.wait(60)
        if self.problem:
            yield {"error": self.problem}


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def images(registry: Registry, clock: FakeClock) -> Iterator[Images]:
    images = Images(registry, clock)
    yield images
    registry.arrived.set()
    images.close()


def of(image: str, policy: str = "") -> Container:
    return view(manifest("p", container(image=image, imagePullPolicy=policy))).spec.containers[0]


def problem(images: Images, spec: Container) -> StartLater | None:
    """Why the image can't be had."""
    try:
        return images.ensure(spec)
    except StartLater as error:
        return error


def refusal(images: Images, spec: Container) -> StartLater:
    """Why the image can't be had, as soon as no pull is under way."""

    def refused() -> StartLater | None:
        start_later = problem(images, spec)
        assert start_later is not None
        return None if start_later.reason == "ContainerCreating" else start_later

    return eventually(refused, what="the end of the pull")


def had(images: Images, spec: Container) -> bool:
    """Whether the image is there; anything but a pull that is under way is an error."""
    start_later = problem(images, spec)
    assert start_later is None or start_later.reason == "ContainerCreating", start_later
    return start_later is None


@pytest.mark.parametrize(
    ("image", "policy", "result"),
    [
        ("a", "", "Always"), ("a:latest", "", "Always"), ("host:5000/a", "", "Always"), ("a:1", "", "IfNotPresent"),
        ("a@sha256:00", "", "IfNotPresent"), ("a", "Never", "Never"), ("a:1", "Always", "Always"),
    ],
)  # fmt: skip
def test_without_a_policy_only_latest_is_pulled_always(image: str, policy: str, result: str) -> None:
    assert pull_policy(of(image, policy)) == result


def test_several_containers_wait_for_one_pull_and_later_ones_have_it_pulled_again_if_they_always_want_it(
    images: Images, registry: Registry, clock: FakeClock
) -> None:
    registry.arrived.clear()
    for _ in range(3):
        with pytest.raises(StartLater, match='Pulling image "host:5000/a"') as caught:
            images.ensure(of("host:5000/a"))
        assert (caught.value.reason, caught.value.event) == ("ContainerCreating", "")
    registry.arrived.set()
    eventually(lambda: had(images, of("host:5000/a")))
    images.ensure(of("host:5000/a"))
    assert registry.pulls == [("host:5000/a", "latest")]
    clock.advance(60)
    eventually(lambda: had(images, of("host:5000/a")))
    assert registry.pulls == [("host:5000/a", "latest")] * 2


@pytest.mark.parametrize("problem", ["manifest unknown", DockerException("manifest unknown")])
def test_a_failed_pull_is_told_and_tried_again_ever_later(
    images: Images, registry: Registry, clock: FakeClock, problem: str | DockerException
) -> None:
    registry.problem = problem
    first = refusal(images, of("a:1"))
    assert (first.reason, first.event) == ("ErrImagePull", "Failed")
    assert str(first) == 'Failed to pull image "a:1": manifest unknown'
    waits = []
    for _ in range(9):
        clock.advance(2)
        rest = refusal(images, of("a:1"))
        assert rest.reason == "ImagePullBackOff"
        waits.append(rest.delay + 2)
        clock.advance(rest.delay)
        refusal(images, of("a:1"))
    assert waits == [min(PULL_BACKOFF_CAP, PULL_BACKOFF_BASE * 2**n) for n in range(9)]
    assert len(registry.pulls) == 10


def test_an_image_that_is_there_is_not_pulled_and_stands_in_for_a_latest_that_can_not_be(
    images: Images, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    assert refusal(images, of("a", "Never")).reason == "ErrImageNeverPull"
    registry.there |= {"a", "a:1"}
    images.ensure(of("a", "Never"))
    images.ensure(of("a:1"))
    assert registry.pulls == []
    with pytest.raises(LaunchError, match="'tensorflow' has no image"):
        images.ensure(of(""))
    registry.problem = "no such host"
    registry.there |= {"mine", "other:1"}
    eventually(lambda: had(images, of("mine", "Always")))
    images.ensure(of("mine", "Always"))
    assert caplog.text.count("the image on this machine is used") == 1
    assert "needs imagePullPolicy IfNotPresent" in str(refusal(images, of("other:1", "Always")))
