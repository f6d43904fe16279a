from pathlib import Path
from random import Random

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import FakeClock
from tests.support.failing import FailsAtFirst
from tests.support.threads import InThread
from tfoperator.base.clock import StopSignal, SystemClock
from tfoperator.kube.protocol.errors import ConfigError
from tfoperator.launcher import LaunchCancelled, LaunchContext, RetryableFailure, RetryPolicy
from tfoperator.launcher.container.launcher import pinned_digest
from tfoperator.launcher.core.context import find_cluster


@pytest.fixture
def account(tmp_path: Path) -> Path:
    folder = tmp_path / "account"
    folder.mkdir()
    for name, text in (("token", "t"), ("ca.crt", "x"), ("namespace", "jobs")):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path, names = tmp_path / "kubeconfig", ("one", "two")
    contexts = [{"name": name, "context": {"cluster": name, "user": "u"}} for name in names]
    clusters = [{"name": name, "cluster": {"server": f"http://{name}"}} for name in names]
    document = {"contexts": contexts, "clusters": clusters, "users": [{"name": "u", "user": {}}]}
    path.write_text(yaml.safe_dump({**document, "current-context": "one"}))
    return path


def test_a_pod_talks_to_its_own_cluster_unless_another_is_named(account: Path, kubeconfig: Path) -> None:
    elsewhere = {"KUBECONFIG": str(kubeconfig)}
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", **elsewhere}
    assert find_cluster(environ=environ, service_account=account).server == "https://10.0.0.1:443"
    assert find_cluster(context="two", environ=environ, service_account=account).server == "http://two"
    assert find_cluster(str(kubeconfig), environ=environ, service_account=account).server == "http://one"
    none = account / "none"
    assert find_cluster(environ=elsewhere, service_account=none).server == "http://one", "the current context"
    with pytest.raises(ConfigError):
        find_cluster(environ={"HOME": str(none)}, service_account=none)


@pytest.mark.parametrize(
    ("image", "digest"),
    [
        ("busybox", ""),
        ("busybox:latest", ""),
        ("host:5000/a/b:1", ""),
        ("busybox@sha256:" + "a" * 64, "sha256:" + "a" * 64),
        ("busybox:1@sha256:" + "0" * 64, "sha256:" + "0" * 64),
        ("sha256:" + "0" * 64, "sha256:" + "0" * 64),
        ("busybox@sha256:" + "a" * 63, ""),
        ("busybox@sha256:" + "a" * 65, ""),
    ],
)
def test_only_a_digest_means_the_same_image_for_ever(image: str, digest: str) -> None:
    assert pinned_digest(image) == digest


def test_a_huge_factor_leads_to_the_longest_wait() -> None:
    policy = RetryPolicy(initial=1, maximum=60, jitter=0, factor=1e300)
    assert [policy.delay(failed, None, Random(1)) for failed in (1, 2, 3)] == [1, 60, 60]


@given(st.integers(1, 1000), st.none() | st.floats(0, 1e9), st.randoms(use_true_random=False))
def test_a_delay_grows_is_capped_and_honours_the_server(failed: int, wish: float | None, random: Random) -> None:
    policy = RetryPolicy(initial=5, maximum=300, jitter=0.5, longest_retry_after=600)
    delay = policy.delay(failed, wish, random)
    full = min(300, 5 * 2 ** min(failed - 1, 64))
    wanted = min(wish or 0, 600)
    assert max(full / 2, wanted) <= delay <= max(full, wanted)


def run(
    work: FailsAtFirst, attempts: int = 3, clock: FakeClock | None = None, cancelled: StopSignal | None = None
) -> str:
    return LaunchContext(clock=clock or SystemClock(), random=Random(1)).repeated(
        work,
        RetryPolicy(attempts=attempts, initial=0 if clock is None else 10, jitter=0),
        lambda error: isinstance(error, RetryableFailure),
        cancelled=cancelled or StopSignal(),
        what="work",
    )


def test_it_is_repeated_until_it_succeeds_or_the_tries_are_over() -> None:
    assert run(FailsAtFirst(RetryableFailure("1"), RetryableFailure("2"))) == "done"
    with pytest.raises(RetryableFailure, match="3"):
        run(FailsAtFirst(*[RetryableFailure(str(n)) for n in (1, 2, 3)]))
    with pytest.raises(ValueError, match="permanent"):
        run(FailsAtFirst(ValueError("permanent"), ValueError("another try")))


def test_it_waits_as_long_as_it_should_and_a_cancellation_ends_that() -> None:
    clock, cancelled = FakeClock(), StopSignal()
    launch = FailsAtFirst(RetryableFailure("x", 40), RetryableFailure("y"))
    running = InThread(lambda: run(launch, 3, clock, cancelled))
    clock.wait_for_deadline(40.0)
    clock.advance(40)
    clock.wait_for_deadline(60.0)
    cancelled.set()
    with pytest.raises(LaunchCancelled):
        running.result()
