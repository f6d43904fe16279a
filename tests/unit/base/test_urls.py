import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.base.urls import shown_url, with_shown_urls


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://user:PASS@bucket/x", "s3://bucket/x"),
        ("postgresql+psycopg://user:PASS@host:5432/db?sslpassword=PASS", "postgresql+psycopg://host:5432/db?..."),
        ("postgresql://host/db?folder=s3://user:PASS@bucket/", "postgresql://host/db?..."),
        ("mysql://user:PA/SS@host/db", "mysql://..."),
        ("https://host/x#PASS", "https://host/x?..."),
        ("http://[::1", "http://..."),
        ("gs://bucket/path", "gs://bucket/path"),
        ("/home/me/a@b?c", "/home/me/a@b?c"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_what_may_be_a_secret(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_urls_in_the_text_of_a_library_are_shown_in_the_same_way() -> None:
    text = "request to 'http://u:PASS@127.0.0.1:1/api?token=PASS' failed, see https://docs.example/x"
    assert with_shown_urls(text) == "request to 'http://127.0.0.1:1/api?...' failed, see https://docs.example/x"


@given(st.text(alphabet="abP:/@?#[]%. ", max_size=30))
def test_no_text_before_an_at_sign_of_an_authority_is_shown(rest: str) -> None:
    assert "SECRET" not in shown_url(f"x://u:SECRET@{rest}")
