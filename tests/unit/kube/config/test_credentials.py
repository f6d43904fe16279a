from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.support.threads import InThread
from tfoperator.kube.config.credentials import IssuedCredential, IssuedCredentials, StaticCredentials, TokenFile, bearer
from tfoperator.kube.protocol.errors import ConfigError


def issued(lifetime: timedelta | None = None) -> tuple[FakeClock, Issuer, IssuedCredentials]:
    clock = FakeClock()
    issuer = Issuer(clock, lifetime)
    return clock, issuer, IssuedCredentials(issuer, clock=clock)


def test_static_credentials_never_change_and_are_not_shown() -> None:
    credentials = StaticCredentials("Bearer s3cret")
    assert credentials.current().authorization == "Bearer s3cret"
    assert not credentials.refused("Bearer s3cret")
    assert credentials.held() == IssuedCredential("Bearer s3cret")
    assert "s3cret" not in repr(credentials.held())


@pytest.mark.parametrize("token", ["", "  \n", "a b", "a\nb", "a\r\nX: y", "ü"])
def test_what_no_header_can_carry_is_no_token(token: str) -> None:
    with pytest.raises(ConfigError, match="the place") as caught:
        bearer(token, "the place")
    assert not token.strip() or token not in str(caught.value)


def test_a_token_file_is_read_again_once_a_minute_or_when_its_token_is_refused(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", FakeClock()
    path.write_text("one\n")
    token = TokenFile(path, clock=clock)
    path.write_text("two\n")
    clock.advance(59.9)
    assert token.held() == token.current() == IssuedCredential("Bearer one")
    clock.advance(0.1)
    assert token.held() is None
    assert token.current() == IssuedCredential("Bearer two")
    assert token.held() == IssuedCredential("Bearer two")
    assert not token.refused("Bearer two"), "there is no other"
    path.write_text("three\n")
    assert token.current().authorization == "Bearer two"
    assert token.refused("Bearer two")
    assert token.current().authorization == "Bearer three"


def test_a_token_file_that_vanishes_leaves_the_last_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "token", FakeClock()
    path.write_text("s3cret")
    token = TokenFile(path, clock=clock)
    path.unlink()
    clock.advance(61)
    assert token.current().authorization == "Bearer s3cret"
    assert token.current().authorization == "Bearer s3cret"
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(("content", "message"), [(b"", "is empty"), (b"\xff\xfe", "is not UTF-8 text")])
def test_a_token_file_without_a_token_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "token"
    with pytest.raises(ConfigError, match=f"cannot read the token file {path}"):
        TokenFile(path)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        TokenFile(path)


class Issuer:
    """Issues `Bearer 1`, `Bearer 2` ...; fails while `failing`; blocks while `gate` is closed."""

    def __init__(self, clock: FakeClock, life: timedelta | None = None) -> None:
        self.clock, self.life = clock, life
        self.issued = 0
        self.failing = False
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def __call__(self) -> IssuedCredential:
        self.entered.set()
        assert self.gate.wait(60)
        if self.failing:
            raise ConfigError("the plugin is out of order")
        self.issued += 1
        expires: datetime | None = self.clock.now() + self.life if self.life else None
        return IssuedCredential(authorization=f"Bearer {self.issued}", expires=expires)


@pytest.mark.parametrize(("life", "used"), [(3600, 3540), (10, 9)], ids=["but for a minute", "for most of a short one"])
def test_what_is_issued_is_used_for_its_life(life: float, used: float) -> None:
    clock, issuer, credentials = issued(timedelta(seconds=life))
    assert credentials.held() is None
    assert issuer.issued == 0, "nothing is run before it is needed, or to look at what is at hand"
    assert [credentials.current().authorization for _ in range(3)] == ["Bearer 1"] * 3
    clock.advance(used - 0.1)
    assert credentials.held().authorization == credentials.current().authorization == "Bearer 1"
    clock.advance(0.2)
    assert credentials.held() is None, "somebody has to renew it"
    assert issuer.issued == 1
    assert credentials.current().authorization == "Bearer 2"


def test_what_is_refused_is_issued_anew_but_once_for_all_who_were_refused() -> None:
    _, issuer, credentials = issued()
    credentials.current()
    assert credentials.refused("Bearer 1")
    assert credentials.refused("Bearer 1"), "a second thread that had used the old one"
    assert credentials.current().authorization == "Bearer 2"
    assert issuer.issued == 2


def test_a_failure_leaves_what_still_holds_or_is_an_error_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    clock, issuer, credentials = issued(timedelta(hours=1))
    issuer.failing = True
    with pytest.raises(ConfigError, match="out of order"):
        credentials.current()  # there are no valid credentials, and the next call tries again
    issuer.failing = False
    assert credentials.current().authorization == "Bearer 1"
    clock.advance(3600 - 50)
    issuer.failing = True
    assert credentials.current().authorization == "Bearer 1"
    assert "the plugin is out of order" in caplog.text
    issuer.failing = False
    assert credentials.current().authorization == "Bearer 1", "not again at once"
    clock.advance(10)
    assert credentials.current().authorization == "Bearer 2"
    clock.advance(3601)
    issuer.failing = True
    with pytest.raises(ConfigError, match="out of order"):
        credentials.current()


@pytest.mark.parametrize("failing", [False, True])
def test_many_threads_wait_for_one_run(failing: bool) -> None:
    clock, issuer, credentials = issued()
    issuer.gate.clear()
    issuer.failing = failing

    def ask() -> str:
        try:
            return credentials.current().authorization
        except ConfigError as error:
            return str(error)

    asking = [InThread(ask) for _ in range(8)]
    assert issuer.entered.wait(60)
    clock.wait_for_waiters(7, timed=False)
    issuer.gate.set()
    assert [caller.result() for caller in asking] == ["the plugin is out of order" if failing else "Bearer 1"] * 8
    assert issuer.issued == (0 if failing else 1)


def test_a_renewal_does_not_hold_up_those_whose_credentials_still_hold() -> None:
    clock, issuer, credentials = issued(timedelta(hours=1))
    credentials.current()
    issuer.entered.clear()
    issuer.gate.clear()
    clock.advance(3600 - 30)
    renewing = InThread(credentials.current)
    assert issuer.entered.wait(60)
    assert credentials.current().authorization == "Bearer 1"
    issuer.gate.set()
    renewing.result()
    assert credentials.current().authorization == "Bearer 2"
