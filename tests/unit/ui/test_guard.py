"""The visitors who get in: one browser per link, with both halves of its session, from the page itself."""

import pytest

from tfoperator.servers.http.messages import Request, parse_head
from tfoperator.ui.guard import KEY_HEADER, MAX_SESSIONS, Sessions, complaint

PORT = 4321


def request(method: str = "GET", path: str = "/api/jobs", **headers: str) -> Request:
    named = {"Host": f"127.0.0.1:{PORT}", **headers}
    return Request(method, path, {name.replace("_", "-").lower(): value for name, value in named.items()})


@pytest.fixture
def links() -> list[str]:
    return []


@pytest.fixture
def sessions(links: list[str]) -> Sessions:
    return Sessions(PORT, links.append)


def test_a_session_needs_both_halves_of_which_the_cookie_is_kept_from_scripts_and_from_other_sites(
    sessions: Sessions, links: list[str]
) -> None:
    session, other = sessions.exchange(links[0]), sessions.exchange(links[1])
    assert other is not None
    cookie = f"{session.cookie_name}={session.cookie}"
    assert sessions.knows(request(Cookie=f"theme=dark; {cookie}", **{KEY_HEADER: session.key}))
    assert not sessions.knows(request(Cookie=cookie))
    assert not sessions.knows(request(**{KEY_HEADER: session.key}))
    assert not sessions.knows(request(Cookie=cookie, **{KEY_HEADER: other.key}))
    assert not sessions.knows(request(Cookie=cookie, **{KEY_HEADER: session.key + "é"}))
    assert "HttpOnly; SameSite=Strict; Path=/api/" in session.set_cookie
    assert "Domain" not in session.set_cookie


@pytest.mark.parametrize("token", ["", "x", "é" * 43, "A" * 10_000])
def test_a_guess_opens_nothing_and_uses_no_link_up(sessions: Sessions, links: list[str], token: str) -> None:
    assert sessions.exchange(token) is None
    assert sessions.exchange(links[0]) is not None


def test_sessions_are_bounded(sessions: Sessions, links: list[str]) -> None:
    made = [sessions.exchange(links[-1]) for _ in range(MAX_SESSIONS + 1)]
    asked = [
        request(Cookie=f"{session.cookie_name}={session.cookie}", **{KEY_HEADER: session.key})
        for session in made
        if session
    ]
    assert [sessions.knows(visit) for visit in asked] == [False] + [True] * MAX_SESSIONS


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": f"localhost:{PORT}"},
        {"Host": f"LOCALHOST:{PORT}"},
        {"Origin": f"http://127.0.0.1:{PORT}"},
        {"Sec_Fetch_Site": "same-origin"},
        {"Sec_Fetch_Site": "none"},
    ],
)
def test_the_page_itself_may_ask_and_a_write_has_to_say_where_it_comes_from(headers: dict[str, str]) -> None:
    assert complaint(request(**headers), PORT) == ""
    assert (complaint(request("POST", "/api/session", **headers), PORT) == "") is ("Origin" in headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": f"evil.example:{PORT}"},
        {"Host": "127.0.0.1"},
        {"Host": f"127.0.0.1:{PORT + 1}"},
        {"Host": f"127.0.0.1:{PORT}@evil.example"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": f"http://127.0.0.1:{PORT + 1}"},
        {"Origin": f"https://127.0.0.1:{PORT}"},
        {"Origin": f"http://localhost:{PORT}"},  # the other name is another origin
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},  # another port of this host
    ],
)
def test_other_pages_and_foreign_names_may_not(headers: dict[str, str]) -> None:
    assert complaint(request(**headers), PORT) != ""


def test_a_second_host_header_is_refused_and_a_link_on_another_page_opens_the_page_but_reads_nothing() -> None:
    asked = parse_head(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nHost: 127.0.0.1:{PORT}\r\n\r\n".encode())
    assert complaint(asked, PORT) != ""
    crossing = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert complaint(request(path="/", **crossing), PORT) == ""
    assert complaint(request(path="/api/jobs", **crossing), PORT) != ""
    assert complaint(request(path="/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors"), PORT) != ""
