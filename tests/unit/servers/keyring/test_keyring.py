from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tfoperator.servers.certificates.pem import CertificateError, facts, is_issued_by, make_authority, make_certificate
from tfoperator.servers.keyring.keyring import Keyring, decode_keyring, encode_keyring, is_due, new_keyring, renewed

START = datetime(2026, 1, 1, tzinfo=UTC)
VALIDITY = timedelta(days=90)
HOSTS = ["webhook.ns.svc", "127.0.0.1"]


@pytest.fixture(scope="module")
def keyring() -> Keyring:
    return new_keyring(HOSTS, START, VALIDITY)


def test_a_new_keyring_trusts_who_signed_it_and_who_will_sign_next(keyring: Keyring) -> None:
    following, issuer = keyring.trusted
    assert keyring.issuer == issuer
    assert is_issued_by(keyring.serving.certificate, issuer)
    assert not is_issued_by(keyring.serving.certificate, following)
    assert keyring.about.hosts == set(HOSTS)
    assert keyring.about.begins < START < keyring.about.ends <= START + VALIDITY


def test_a_renewal_is_signed_by_an_authority_that_was_known_before(keyring: Keyring) -> None:
    later = START + timedelta(days=61)
    assert not is_due(keyring, HOSTS, START + timedelta(days=59))
    assert is_due(keyring, HOSTS, later)
    second = renewed(keyring, HOSTS, later, VALIDITY)
    assert second.issuer == keyring.trusted[0]
    assert second.next_key != keyring.next_key
    assert set(keyring.trusted) < set(second.trusted)  # a server that still shows the old certificate stays trusted
    assert not is_due(second, HOSTS, later)
    assert is_due(keyring, [*HOSTS, "elsewhere.example.com"], START), "another name calls for another certificate"
    assert not is_due(keyring, HOSTS[:1], START)


def test_over_years_every_certificate_was_trusted_before_it_was_made_and_after(keyring: Keyring) -> None:
    now, current = START, keyring
    for _ in range(20):
        now = current.renewal
        following = renewed(current, HOSTS, now, VALIDITY)
        assert following.issuer in current.trusted
        assert current.issuer in following.trusted
        assert following.about.ends > now + VALIDITY * 0.9
        assert len(following.trusted) <= 4
        for authority in following.trusted:
            assert facts(authority).ends > now
        current = following


def test_after_a_long_sleep_it_begins_anew_but_trusts_what_is_still_valid(keyring: Keyring) -> None:
    now = START + timedelta(days=300)  # the next issuer has 60 days left
    awake = renewed(keyring, HOSTS, now, VALIDITY)
    assert awake.issuer not in keyring.trusted
    assert set(keyring.trusted) <= set(awake.trusted)
    assert awake.about.ends > now + VALIDITY * 0.9
    gone = renewed(keyring, HOSTS, START + timedelta(days=1000), VALIDITY)
    assert not set(keyring.trusted) & set(gone.trusted)


def test_it_is_read_back_as_it_was_written_and_no_key_shows_when_it_is_printed(keyring: Keyring) -> None:
    assert decode_keyring(encode_keyring(keyring)) == keyring
    for text in (repr(keyring), repr(keyring.serving), str(keyring)):
        assert "BEGIN" not in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tls.crt": b""}, "tls.crt is missing"),
        ({"ca.crt": b"", "tls.key": b""}, "tls.key, ca.crt are missing"),
        ({"tls.crt": b"nonsense"}, "no certificate"),
        ({"tls.key": b"nonsense"}, "private key"),
        ({"ca.crt": b"nonsense"}, "no certificate"),
        ({"next-ca.key": b"nonsense"}, "private key"),
    ],
)
def test_what_does_not_make_a_keyring_is_refused(keyring: Keyring, change: dict[str, bytes], words: str) -> None:
    with pytest.raises(CertificateError, match=words):
        decode_keyring(encode_keyring(keyring) | change)


@pytest.mark.filterwarnings("ignore:Parsed a serial number")  # a spoilt serial number
@settings(max_examples=200, deadline=None)
@example(name="ca.crt", cut=264, put=b"/")  # in the identifier of the public key's algorithm
@example(name="tls.crt", cut=261, put=b"/")
@example(name="tls.crt", cut=44, put=b"a")  # in the version
@example(name="ca.crt", cut=767, put=b"AA")  # in an authority's signature of itself
@given(name=st.sampled_from(["tls.crt", "tls.key", "ca.crt", "next-ca.key"]), cut=st.integers(0, 900), put=st.binary())
def test_spoilt_bytes_are_refused_or_change_nothing(keyring: Keyring, name: str, cut: int, put: bytes) -> None:
    data = encode_keyring(keyring)
    spoilt = data | {name: data[name][:cut] + put + data[name][cut + len(put) :]}
    try:
        read = decode_keyring(spoilt)
    except CertificateError:
        return
    assert (read.about, read.issuer) == (keyring.about, keyring.issuer)


def test_parts_of_two_keyrings_make_none(keyring: Keyring) -> None:
    other = encode_keyring(new_keyring(HOSTS, START, VALIDITY))
    for parts in (["tls.key"], ["tls.crt", "tls.key"], ["next-ca.key"], ["ca.crt", "next-ca.key"]):
        mixed = encode_keyring(keyring) | {name: other[name] for name in parts}
        with pytest.raises(
            CertificateError, match=r"does not belong to the certificate|not signed by one of the authorities"
        ):
            decode_keyring(mixed)


def test_a_short_life_is_counted_from_its_making_and_none_outlives_its_authority() -> None:
    short = new_keyring(HOSTS, START, timedelta(seconds=15))
    assert timedelta(seconds=7) < short.renewal - START < timedelta(seconds=12)
    authority = make_authority("test CA", START, timedelta(days=1))
    assert facts(make_certificate(authority, HOSTS, START, VALIDITY).certificate).ends == START + timedelta(days=1)
