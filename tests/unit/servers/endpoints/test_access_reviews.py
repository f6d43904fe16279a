import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from http import HTTPStatus
from typing import Any

import msgspec
import pytest

from tests.support.clock import FakeClock
from tests.support.fake_api import api_error
from tfoperator.kube.protocol.errors import TransportError
from tfoperator.kube.protocol.resources import TOKEN_REVIEWS, Resource
from tfoperator.servers.endpoints import access_reviews
from tfoperator.servers.endpoints.access_reviews import Access, AccessReviews, bearer_token

SCRAPER = "system:serviceaccount:monitoring:prometheus"
OK, UNAUTHORIZED, FORBIDDEN, UNAVAILABLE = (HTTPStatus(code) for code in (200, 401, 403, 503))


class Server:
    """The API server's half: who has which token, and who may read."""

    def __init__(self) -> None:
        self.users = {"good": SCRAPER, "curious": "system:serviceaccount:team:default"}
        self.readers = {SCRAPER}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.failure: Exception | None = None
        self.answers = threading.Event()
        self.answers.set()

    def create(self, resource: Resource, namespace: str, body: Any, decode: Callable[[bytes], Any]) -> Any:
        assert (namespace, resource.namespaced) == ("", False)
        assert (body["apiVersion"], body["kind"]) == (resource.api_version, resource.kind)
        self.asked.append((resource.kind, body["spec"]))
        assert self.answers.wait(20)
        if self.failure is not None:
            raise self.failure
        return decode(msgspec.json.encode({"kind": resource.kind, "status": self.status(resource, body["spec"])}))

    def status(self, resource: Resource, spec: dict[str, Any]) -> dict[str, Any]:
        if resource is not TOKEN_REVIEWS:
            return {"allowed": spec["user"] in self.readers}
        user = self.users.get(spec["token"])
        if user is None:
            return {"error": "invalid bearer token", "user": {}}
        about = {"username": user, "uid": "u-1", "groups": ["system:authenticated"], "extra": {"a": ["b"]}}
        return {"authenticated": True, "user": about}

    def reviewed(self) -> int:
        """How many tokens it was asked about."""
        return sum(kind == "TokenReview" for kind, _ in self.asked)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def reviews(server: Server, clock: FakeClock) -> Iterator[AccessReviews]:
    created = AccessReviews(server, clock=clock)  # type: ignore[arg-type] # the one verb that it uses
    yield created
    server.answers.set()
    created.close()


def check(reviews: AccessReviews, token: str, source: str = "10.0.0.1") -> Coroutine[Any, Any, Access]:
    return reviews.check(token, path="/metrics", verb="get", source=source)


def ask(reviews: AccessReviews, *tokens: str, source: str = "10.0.0.1") -> list[HTTPStatus]:
    """One after the other."""

    async def all_of_them() -> list[HTTPStatus]:
        return [(await check(reviews, token, source)).status for token in tokens]

    return asyncio.run(all_of_them())


def test_the_api_server_decides(reviews: AccessReviews, server: Server) -> None:
    assert ask(reviews, "good", "curious", "unknown", "") == [OK, FORBIDDEN, UNAUTHORIZED, UNAUTHORIZED]
    assert [kind for kind, _ in server.asked] == ["TokenReview", "SubjectAccessReview"] * 2 + ["TokenReview"]
    assert server.asked[1][1] == {
        "user": SCRAPER, "uid": "u-1", "groups": ("system:authenticated",), "extra": {"a": ("b",)},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }  # fmt: skip


def test_its_answers_are_remembered_for_a_while_and_a_right_that_was_taken_away_ends_within_a_minute(
    reviews: AccessReviews, server: Server, clock: FakeClock
) -> None:
    ask(reviews, "good", "curious", "good", "curious")
    assert server.reviewed() == 2
    clock.advance(access_reviews.REFUSED_SECONDS)
    server.readers.add(server.users["curious"])
    assert ask(reviews, "good", "curious") == [OK, OK]
    assert server.reviewed() == 3
    server.readers.clear()
    clock.advance(access_reviews.ALLOWED_SECONDS - access_reviews.REFUSED_SECONDS - 0.1)
    assert ask(reviews, "good") == [OK]
    clock.advance(0.1)
    assert ask(reviews, "good") == [FORBIDDEN]
    del server.users["good"]
    clock.advance(access_reviews.REFUSED_SECONDS)
    assert ask(reviews, "good") == [UNAUTHORIZED]


@pytest.mark.parametrize("failure", [TransportError("reset"), api_error(403, "Forbidden"), api_error(500)])
def test_no_answer_is_no_yes_and_not_remembered(
    reviews: AccessReviews, server: Server, clock: FakeClock, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server.failure = failure
    assert ask(reviews, "good", "good") == [UNAVAILABLE, UNAVAILABLE]
    assert caplog.text.count("can't check their permission") == 1
    server.failure = None
    assert ask(reviews, "good") == [OK]
    clock.advance(access_reviews.ALLOWED_SECONDS)
    server.failure = failure
    assert ask(reviews, "good") == [UNAVAILABLE]
    assert "good" not in caplog.text


@pytest.mark.parametrize(("answers", "status"), [(True, OK), (False, UNAVAILABLE)])
def test_who_asks_at_the_same_time_shares_one_question_and_waits_for_no_api_server_that_says_nothing(
    reviews: AccessReviews, server: Server, monkeypatch: pytest.MonkeyPatch, answers: bool, status: HTTPStatus
) -> None:
    if not answers:
        monkeypatch.setattr(access_reviews, "ANSWER_SECONDS", 0.05)
        server.answers.clear()

    async def many() -> list[Access]:
        waiting = await asyncio.gather(*(check(reviews, "good") for _ in range(50)))
        server.answers.set()
        return waiting

    assert {access.status for access in asyncio.run(many())} == {status}
    assert server.reviewed() == 1


def test_a_flood_of_tokens_is_no_flood_of_questions(reviews: AccessReviews, server: Server, clock: FakeClock) -> None:
    answers = ask(reviews, *(f"garbage-{number}" for number in range(2000)))
    assert server.reviewed() == access_reviews.SOURCE_AT_ONCE
    assert answers.count(UNAVAILABLE) == 2000 - access_reviews.SOURCE_AT_ONCE
    assert ask(reviews, "good", source="10.0.0.2") == [OK]
    for number in range(200):
        ask(reviews, *(f"more-{number}-{index}" for index in range(5)), source=f"10.0.1.{number}")
    assert server.reviewed() == access_reviews.STRANGERS_AT_ONCE
    # A client whose token was good gets a new review all the same when its time is over.
    clock.advance(access_reviews.ALLOWED_SECONDS)
    ask(reviews, *(f"again-{index}" for index in range(100)), source="10.0.0.9")
    assert ask(reviews, "good", source="10.0.0.2") == [OK]


def test_what_is_remembered_is_bounded(server: Server, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_reviews, "REMEMBERED", 8)
    small = AccessReviews(server, clock=clock)  # type: ignore[arg-type]
    for number in range(100):
        clock.advance(10)
        ask(small, f"garbage-{number}", source=f"10.0.0.{number}")
    assert server.reviewed() == 100
    assert max(len(kept) for kept in (small._decisions, small._accepted, small._sources)) <= 8
    assert small._asked == {}
    small.close()


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc.def-_~+/=", "abc.def-_~+/="),
        ("bearer  abc ", "abc"),
        *((no, "") for no in ("", "Bearer ", "Basic abc", "Bearer a, Bearer b")),
        *((f"Bearer {no}", "") for no in ("a b", "a\tb", "é")),
        (f"Bearer {'x' * (12 << 10)}", "x" * (12 << 10)),
        (f"Bearer {'x' * ((12 << 10) + 1)}", ""),
    ],
)
def test_what_counts_as_a_token(header: str, token: str) -> None:
    assert bearer_token(header) == token
