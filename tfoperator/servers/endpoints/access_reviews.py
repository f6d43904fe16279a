"""Access control for metrics.

The operator sends the token of a scraper to the API server in a TokenReview, and then asks in a SubjectAccessReview
whether the token's user may `get` the nonResourceURL `/metrics`. controller-runtime's filter
`WithAuthenticationAndAuthorization` does the same. The results are cached for a short time. Clients with unknown tokens
can cause only a few reviews a second: the API server counts reviews as requests of the operator, so a large number of
reviews could delay the operator's other requests.

If the API server does not respond in time, the client gets 503.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import msgspec
from cachetools import LRUCache, TLRUCache, TTLCache

from tfoperator.base.clock import Clock
from tfoperator.base.token_bucket import TokenBucket
from tfoperator.kube.protocol.errors import KubeError
from tfoperator.kube.protocol.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from tfoperator.kube.protocol.verbs import ApiClient

logger = logging.getLogger(__name__)

ALLOWED_SECONDS = 60.0
"""The seconds for which a permission is cached. So a revoked right may still be used for this time. controller-runtime
caches a token for the same time.
"""
REFUSED_SECONDS = 10.0
"""The seconds for which a refusal is cached."""
KNOWN_SECONDS = 3600.0
"""The seconds for which a token counts as known after its last success. The reviews of a known token do not count
towards the limits for unknown tokens.
"""
ANSWER_SECONDS = 4.0
"""The maximum seconds that a request waits for the API server. A scraper's time-out is longer (Prometheus: 10 s)."""
REMEMBERED = 1024
STRANGERS_PER_SECOND, STRANGERS_AT_ONCE = 5.0, 10
"""The limits on reviews of tokens that were never permitted, for all sources together: per second, and in a burst."""
SOURCE_PER_SECOND, SOURCE_AT_ONCE = 0.5, 5
"""The limits on reviews of tokens that were never permitted, from a single IP address: per second, and in a burst."""
ASKING = 2
MAX_WAITING = 32
MAX_TOKEN = 12 << 10
_TOKEN = re.compile(r"[\x21-\x7e]+")
_REPORT_SECONDS = 60.0


class Access(msgspec.Struct, frozen=True):
    """The decision about a request: the HTTP status, and the user's name if the token is valid.

    The status is OK, UNAUTHORIZED (no valid token), FORBIDDEN or SERVICE_UNAVAILABLE (no response of the API server).
    """

    status: HTTPStatus
    user: str = ""


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_UNAUTHORIZED = Access(HTTPStatus.UNAUTHORIZED)
_UNAVAILABLE = Access(HTTPStatus.SERVICE_UNAVAILABLE)


def bearer_token(authorization: str) -> str:
    """Return the token in the header `Authorization: Bearer TOKEN`.

    Return "" for another scheme, and for a token that is too long or contains other characters than printable ASCII.
    """
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or len(token) > MAX_TOKEN or not _TOKEN.fullmatch(token):
        return ""
    return token


def review(client: ApiClient, token: str, path: str, verb: str) -> Access:
    """Return the API server's decision about a request with this token. Blocks.

    The function sends a TokenReview, and for a valid token also a SubjectAccessReview. Raises KubeError if such a
    request to the API server fails.
    """
    wanted = {"apiVersion": TOKEN_REVIEWS.api_version, "kind": TOKEN_REVIEWS.kind, "spec": {"token": token}}
    answer = client.create(TOKEN_REVIEWS, "", wanted, msgspec.json.Decoder(_TokenReview).decode).status
    user = answer.user
    if not answer.authenticated or not user.username:
        return _UNAUTHORIZED
    about = {
        "user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra,
        "nonResourceAttributes": {"path": path, "verb": verb},
    }  # fmt: skip
    wanted = {"apiVersion": SUBJECT_ACCESS_REVIEWS.api_version, "kind": SUBJECT_ACCESS_REVIEWS.kind, "spec": about}
    decision = client.create(SUBJECT_ACCESS_REVIEWS, "", wanted, msgspec.json.Decoder(_AccessReview).decode).status
    allowed = decision.allowed and not decision.denied
    return Access(HTTPStatus.OK if allowed else HTTPStatus.FORBIDDEN, user.username)


class AccessReviews:
    """Decides whether requests are permitted, with a cache of the API server's decisions.

    Call its methods in the thread of a single event loop. `check` never blocks this loop. The cache contains only
    hashes of tokens. Tokens are never logged.
    """

    def __init__(self, client: ApiClient, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._pool = ThreadPoolExecutor(ASKING, thread_name_prefix="access-review")
        self._decisions: TLRUCache[bytes, Access] = TLRUCache(REMEMBERED, _holds_until, timer=clock.monotonic)
        self._accepted: TTLCache[bytes, bool] = TTLCache(REMEMBERED, KNOWN_SECONDS, timer=clock.monotonic)
        self._strangers = TokenBucket(STRANGERS_PER_SECOND, STRANGERS_AT_ONCE)
        self._sources: LRUCache[str, TokenBucket] = LRUCache(REMEMBERED)
        self._asked: dict[bytes, asyncio.Future[Access]] = {}
        self._next_report = 0.0

    async def check(self, token: str, *, path: str, verb: str, source: str) -> Access:
        """Return whether the owner of a token may use the HTTP method `verb` on `path`. The token "" is refused.

        `source` identifies the sender of the request (`limits.source_of`).
        """
        if not token:
            return _UNAUTHORIZED
        key = hashlib.sha256(f"{verb} {path} {token}".encode()).digest()
        decision = self._decisions.get(key)
        if decision is not None:
            return decision
        asked = self._asked.get(key)
        if asked is None:
            if len(self._asked) >= MAX_WAITING or not self._may_ask(key, source):
                return _UNAVAILABLE
            asked = asyncio.ensure_future(self._ask(key, lambda: review(self._client, token, path, verb)))
            self._asked[key] = asked
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await asyncio.shield(asked)
        except TimeoutError:
            self._report("no answer came in time")
            return _UNAVAILABLE

    def close(self) -> None:
        """End the threads. The caller must first close the client, so that no review in progress delays this call."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _may_ask(self, key: bytes, source: str) -> bool:
        if self._accepted.get(key):
            return True
        own, now = self._sources.get(source), self._clock.monotonic()
        if own is None:
            own = self._sources[source] = TokenBucket(SOURCE_PER_SECOND, SOURCE_AT_ONCE)
        # The source's own limit comes first. A request beyond this limit takes nothing from the limit for all sources.
        return own.take(now) and self._strangers.take(now)

    async def _ask(self, key: bytes, ask: Callable[[], Access]) -> Access:
        try:
            access = await asyncio.get_running_loop().run_in_executor(self._pool, ask)
        except KubeError as error:
            self._report(str(error))
            return _UNAVAILABLE
        finally:
            del self._asked[key]
        self._decisions[key] = access
        if access.status is HTTPStatus.OK:
            self._accepted[key] = True
        return access

    def _report(self, problem: str) -> None:
        now = self._clock.monotonic()
        if now >= self._next_report:
            self._next_report = now + _REPORT_SECONDS
            logger.error(
                "requests for metrics are refused, because the API server can't check their permission: %s", problem
            )


def _holds_until(_: bytes, access: Access, now: float) -> float:
    return now + (ALLOWED_SECONDS if access.status is HTTPStatus.OK else REFUSED_SECONDS)
