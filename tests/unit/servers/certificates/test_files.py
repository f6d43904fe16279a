import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.support.eventually import eventually
from tfoperator.servers.certificates.files import CertificateFiles
from tfoperator.servers.certificates.pem import CertificateError, KeyPair, check_key
from tfoperator.servers.keyring.keyring import new_keyring


def pair() -> KeyPair:
    return new_keyring(["localhost"], datetime.now(UTC), timedelta(days=1)).serving


class Mounted:
    """A directory as the kubelet makes it: the files are links through a link that is swapped at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.shown: list[KeyPair] = []
        self.expiries: list[datetime] = []
        self._number = 0
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(Path("..data") / name)
        self.files = CertificateFiles(
            folder, owner="test", on_certificate=self._show, on_expiry=self.expiries.append, clock=self.clock
        )

    def _show(self, pair: KeyPair) -> None:
        check_key(pair)
        self.shown.append(pair)

    def start(self, pair: KeyPair) -> None:
        self.put(pair)
        self.files.start()

    def put(self, pair: KeyPair) -> None:
        self._number += 1
        version = self.folder / f"..{self._number}"
        version.mkdir()
        (version / "tls.crt").write_bytes(pair.certificate)
        (version / "tls.key").write_bytes(pair.key)
        link = self.folder / "..new"
        link.symlink_to(version.name)
        os.replace(link, self.folder / "..data")

    def look(self) -> None:
        self.clock.pass_time(5.0)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    mount = Mounted(tmp_path)
    yield mount
    mount.files.stop()


def test_a_certificate_is_shown_and_the_next_one_when_it_comes(mounted: Mounted) -> None:
    first, second = pair(), pair()
    mounted.start(first)
    eventually(lambda: mounted.shown == [first], what="the certificate")
    mounted.look()
    mounted.put(second)
    mounted.look()
    eventually(lambda: mounted.shown == [first, second], what="the next one")
    eventually(lambda: len(mounted.expiries) == 2, what="when it expires")


def test_an_expired_certificate_is_an_error_in_the_log(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    old = new_keyring(["localhost"], mounted.clock.now() - timedelta(days=2), timedelta(days=1)).serving
    mounted.start(old)
    eventually(lambda: "expired" in caplog.text, what="the line")
    assert mounted.shown == [old]
    assert [record.levelname for record in caplog.records if "expired" in record.message] == ["ERROR"]


def test_files_that_come_later_are_waited_for_with_one_line(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    mounted.files.start()
    mounted.look()
    mounted.look()
    assert caplog.text.count("No such file") == 1
    good = pair()
    mounted.put(good)
    mounted.look()
    eventually(lambda: mounted.shown == [good], what="the certificate")


def test_what_makes_no_pair_changes_nothing_until_it_does(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    first, second = pair(), pair()
    mounted.start(first)
    eventually(lambda: mounted.shown, what="the certificate")
    mounted.put(KeyPair(b"nonsense", b"nonsense"))
    mounted.look()
    eventually(lambda: "no certificate in PEM form" in caplog.text, what="a complaint")
    mounted.put(KeyPair(second.certificate, first.key))
    mounted.look()
    eventually(lambda: "the private key does not belong to" in caplog.text, what="another")
    assert mounted.shown == [first]
    mounted.put(second)
    mounted.look()
    eventually(lambda: mounted.shown == [first, second], what="the next one")
    assert "PRIVATE KEY" not in caplog.text
    with pytest.raises(CertificateError):
        check_key(KeyPair(b"nonsense", b"nonsense"))
