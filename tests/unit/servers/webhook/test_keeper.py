import base64
import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tests.support.fake_api import Call, FakeApi, api_error
from tfoperator.api.replicas.names import CRD_NAME
from tfoperator.api.schema.crd import crd
from tfoperator.kube.protocol.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from tfoperator.servers.certificates.pem import KeyPair, is_issued_by, split
from tfoperator.servers.keyring.secret import KeyringSecret
from tfoperator.servers.webhook.keeper import CertificateKeeper
from tfoperator.servers.webhook.metrics import WebhookMetrics
from tfoperator.servers.webhook.registration import Target

DAY = 86400.0


class Replica:
    """One keeper, and the certificates that it has shown."""

    def __init__(self, api: FakeApi, clock: FakeClock) -> None:
        self.shown: list[KeyPair] = []
        made = {"hosts": ["webhook.ns.svc"], "validity": timedelta(days=90)}
        callbacks = {"on_keyring": lambda keyring: self.shown.append(keyring.serving), "metrics": WebhookMetrics()}
        secret, target = KeyringSecret(api, "ns", "cert"), Target("webhook", "ns")
        self.keeper = CertificateKeeper(api, secret, target, clock=clock, **made, **callbacks)
        self.keeper.start()


class World:
    def __init__(self) -> None:
        self.api = FakeApi()
        self.clock = FakeClock()
        self.replicas: list[Replica] = []

    def install(self) -> None:
        self.api.put(CUSTOM_RESOURCE_DEFINITIONS, crd(all_versions=True))

    def start(self) -> Replica:
        replica = Replica(self.api, self.clock)
        self.replicas.append(replica)
        return replica

    def started(self) -> Replica:
        """A replica beside an installed CRD, which shows a certificate that the CRD trusts."""
        self.install()
        replica = self.start()
        eventually(lambda: replica.shown, what="a certificate")
        self.wait_trusted()
        return replica

    def secret(self) -> dict[str, bytes]:
        (secret,) = self.api.objects(SECRETS)
        return {name: base64.b64decode(value) for name, value in secret["data"].items()}

    def trusted(self) -> bytes:
        (definition,) = self.api.objects(CUSTOM_RESOURCE_DEFINITIONS)
        webhook = definition["spec"]["conversion"].get("webhook") or {"clientConfig": {}}
        return base64.b64decode(webhook["clientConfig"].get("caBundle") or "")

    def wait_trusted(self) -> None:
        eventually(lambda: self.trusted() == self.secret()["ca.crt"], what="the CRD trusts what the Secret holds")

    def touch(self) -> None:
        """Somebody changes the CRD, which wakes every replica."""
        label = {"metadata": {"labels": {"touched": str(self.clock.monotonic())}}}
        self.api.edit(CUSTOM_RESOURCE_DEFINITIONS, "", CRD_NAME, label)

    def rest(self) -> None:
        """Until every replica has heard of the CRD as it is, and waits for time to pass."""
        eventually(lambda: all(self.has_heard(replica) for replica in self.replicas), what="all have heard of the CRD")
        self.clock.wait_for_waiters(len(self.replicas))

    def has_heard(self, replica: Replica) -> bool:
        # The API servers' trusted certificates, and their age, are counted from here: time may not pass before it.
        seen = replica.keeper._crd
        versions = [
            definition["metadata"]["resourceVersion"] for definition in self.api.objects(CUSTOM_RESOURCE_DEFINITIONS)
        ]
        return versions == ([seen.metadata.resource_version] if seen else [])


@pytest.fixture
def world() -> Iterator[World]:
    created = World()
    yield created
    for replica in created.replicas:
        replica.keeper.stop()


def test_it_makes_a_certificate_and_tells_the_crd_and_no_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    replica = world.started()
    assert replica.shown[0].certificate == world.secret()["tls.crt"]
    (secret,) = world.api.objects(SECRETS)
    assert (secret["type"], secret["metadata"]["namespace"]) == ("kubernetes.io/tls", "ns")
    assert any(is_issued_by(replica.shown[0].certificate, ca) for ca in split(world.trusted()))
    assert "PRIVATE KEY" not in caplog.text
    assert replica.shown[0].key.decode().splitlines()[1] not in caplog.text


def test_who_loses_the_race_for_the_secret_takes_what_the_winner_made(world: World) -> None:
    winner = Replica(FakeApi(), FakeClock())
    eventually(lambda: winner.shown, what="the winner's certificate")
    winner.keeper.stop()
    made = winner.keeper._shown
    assert made is not None

    def be_faster(call: Call) -> None:
        if call.verb == "create" and call.resource == "secrets":
            world.api.behave()
            KeyringSecret(world.api, "ns", "cert").write(made, over=None)

    world.api.react(be_faster)
    replica = world.started()
    assert replica.shown == [made.serving]


def test_it_renews_in_time_and_nobody_shows_what_is_not_trusted(world: World) -> None:
    world.install()
    replicas = [world.start(), world.start()]
    eventually(lambda: all(replica.shown for replica in replicas), what="certificates")
    world.wait_trusted()
    world.rest()
    for count in (2, 3, 4):
        trusted = world.trusted()
        world.clock.advance(61 * DAY)
        eventually(
            lambda count=count: [len(replica.shown) for replica in replicas] == [count] * 2, what="both show another"
        )
        new = world.secret()["tls.crt"]
        assert {replica.shown[-1].certificate for replica in replicas} == {new}
        assert any(is_issued_by(new, ca) for ca in split(trusted))
        world.wait_trusted()
        world.rest()


def test_a_deleted_secret_is_replaced_but_shown_only_when_api_servers_had_time(world: World) -> None:
    replica = world.started()
    world.rest()
    old = world.trusted()
    world.api.remove(SECRETS, "ns", "cert")
    world.touch()
    eventually(lambda: world.api.objects(SECRETS), what="another Secret")
    world.rest()
    world.clock.advance(2.0)  # the CRD was written a moment ago
    world.wait_trusted()
    assert set(split(old)) & set(split(world.trusted())), "what is shown must stay trusted"
    world.rest()
    world.clock.wait_for_deadline(7.0)
    assert len(replica.shown) == 1
    world.clock.advance(5.0)
    eventually(lambda: len(replica.shown) == 2, what="the new one is shown")
    assert replica.shown[-1].certificate == world.secret()["tls.crt"]


def test_a_broken_secret_is_made_anew(world: World, caplog: pytest.LogCaptureFixture) -> None:
    broken = {"metadata": {"name": "cert", "namespace": "ns"}, "type": "kubernetes.io/tls", "data": {"tls.crt": "AAAA"}}
    world.api.put(SECRETS, broken)
    world.started()
    assert "tls.key, ca.crt, next-ca.key are missing" in caplog.text


def test_somebody_elses_secret_is_left_alone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.install()
    foreign = world.api.put(SECRETS, {"metadata": {"name": "cert", "namespace": "ns"}, "type": "Opaque", "data": {}})
    world.start()
    eventually(lambda: "has type Opaque" in caplog.text, what="a complaint")
    world.rest()
    assert world.api.objects(SECRETS) == [foreign]


def test_a_crd_that_comes_later_or_is_applied_anew_is_told(world: World) -> None:
    replica = world.start()
    eventually(lambda: replica.shown, what="a certificate, without a CRD")
    world.install()
    world.wait_trusted()
    world.rest()
    world.install()
    assert world.trusted() == b""
    world.clock.advance(2.0)
    world.wait_trusted()
    assert len(replica.shown) == 1


def test_two_operators_that_want_the_crd_do_not_write_without_end(world: World) -> None:
    other = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": "AAAA"}}}}}
    world.started()
    for _ in range(62):
        if world.trusted() == world.secret()["ca.crt"]:
            world.api.edit(CUSTOM_RESOURCE_DEFINITIONS, "", CRD_NAME, other)
        world.rest()
        world.clock.advance(1.0)
        world.rest()
    # The first, and those after pauses of 1, 2, 4, 8, 16 and 32 s.
    assert 5 <= world.api.count("patch") <= 7


def test_conflicts_are_no_writes_and_cost_no_time(world: World) -> None:
    rivals = iter(range(8))

    def be_faster(call: Call) -> None:
        if call.verb == "patch" and next(rivals, None) is not None:
            world.touch()

    world.api.react(be_faster)
    world.started()
    assert world.api.count("patch") == 9
    assert world.clock.monotonic() == 0


@pytest.mark.parametrize(
    ("verb", "resource", "times"),
    [("get", "secrets", 1100), ("create", "secrets", 4), ("patch", CUSTOM_RESOURCE_DEFINITIONS.plural, 4)],
)
def test_a_failure_is_said_once_and_tried_again_even_if_it_lasts_a_day(
    world: World, caplog: pytest.LogCaptureFixture, verb: str, resource: str, times: int
) -> None:
    caplog.set_level(logging.ERROR)
    world.install()
    world.api.fail(verb, resource, api_error(403, "Forbidden", "not allowed"), times=times)
    replica = world.start()
    for _ in range(times):
        world.clock.wait_for_waiters(1)
        eventually(lambda: "not allowed" in caplog.text, what="a complaint")
        world.clock.advance(60.0)
    eventually(lambda: replica.shown, what="a certificate after all")
    for _ in range(2):
        world.rest()
        world.clock.advance(60.0)
    world.wait_trusted()
    assert caplog.text.count("not allowed") == 1


def test_a_crd_that_can_only_be_read_delays_no_certificate(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """As the API server of `tfoperator local` shows it."""
    caplog.set_level(logging.INFO)
    world.install()
    refusal = api_error(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    world.api.fail("patch", CUSTOM_RESOURCE_DEFINITIONS.plural, refusal, times=100)
    replica = world.start()
    eventually(lambda: replica.shown, what="a certificate")
    for _ in range(3):
        world.clock.wait_for_waiters(1)
        world.clock.advance(60.0)
    assert caplog.text.count("does not use the webhook for TFJobs, because the") == 1
    assert caplog.text.count("does not allow this method") == 1
