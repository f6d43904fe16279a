"""Sends concurrent requests from one thread, in chains.

The next request of a chain is sent after the response to the previous request. With one thread per request, each
response would wake its own thread, and the thread's data would not be in the processor's caches: a request took 0.25 ms
of CPU in this way, and only a tenth of this time was for its own work. Here one thread sends requests, and reads the
responses that arrived meanwhile, often several at a time. A caller that waits for many chains wakes only once.

The sending thread never waits for a single request. If a call finds no idle connection, has no credential in memory or
must be retried, another thread makes this call with `Session.call`.
"""

from __future__ import annotations

import contextlib
import logging
import math
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tfoperator.kube.http.connections.answer import Response
from tfoperator.kube.http.connections.exchange import Exchange
from tfoperator.kube.http.sending.gathering import Gathering
from tfoperator.kube.http.sending.requests import Call
from tfoperator.kube.http.sending.session import Session
from tfoperator.kube.protocol.errors import ApiError, ClientClosed, KubeError, TransportError

logger = logging.getLogger(__name__)

Result = Response | KubeError
"""The result of a call. A Response always has a 2xx status."""


class Batch:
    """Chains for which one caller waits together."""

    def __init__(self, chains: int) -> None:
        self.left = chains  # changed under the multiplexer's lock
        self.ended = threading.Event()


class Chain:
    """A list of at least one call, and the results of the calls that are complete.

    Only one thread uses the chain at a time.
    """

    __slots__ = ("batch", "began", "call", "calls", "is_over", "results")

    def __init__(self, calls: Sequence[Call], batch: Batch) -> None:
        if not calls:
            raise ValueError("a chain has no calls")
        self.calls = calls
        self.results: list[Result] = []
        self.batch = batch
        self.began = 0.0  # start of the current call, on the performance counter
        self.call = calls[0]
        """The current or the next call. In a finished chain, the last call."""
        self.is_over = False
        """Whether all calls were made, or a call failed."""

    def take(self, result: Result) -> bool:
        """Record the result of the current call, and return True. The chain ends after an error or its last call.

        For a finished chain return False, and leave the chain unchanged.
        """
        if self.is_over:
            return False
        self.results.append(result)
        if isinstance(result, KubeError) or len(self.results) == len(self.calls):
            self.is_over = True
        else:
            self.call = self.calls[len(self.results)]
        return True


class Multiplexer:
    """Sends the calls of one session, at most `parallelism` calls concurrently. `run` may be called from any thread.

    Close the multiplexer before or after the session. If the session is closed first, the current calls fail with
    ClientClosed.
    """

    def __init__(self, session: Session, parallelism: int) -> None:
        self._session = session
        self._parallelism = parallelism
        self._lock = threading.Lock()  # guards the fields below
        self._waiting: deque[Chain] = deque()
        self._under_way = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        # Used only by the multiplexer's thread.
        self._exchanges: dict[int, tuple[Chain, Exchange]] = {}  # by file descriptor
        self._polled: set[int] = set()  # connections registered with the poll below
        self._ready: set[int] = set()  # connections that may have more to read without an event
        self._gathering = Gathering()
        self._looked_at = 0.0  # on the monotonic clock
        self._late_at = math.inf  # on the same clock: exchanges time out only after this moment
        self._poll = select.poll()
        self._bell, self._ringer = socket.socketpair()
        for sock in (self._bell, self._ringer):
            sock.setblocking(False)
        self._poll.register(self._bell, select.POLLIN)
        self._threads = ThreadPoolExecutor(parallelism, thread_name_prefix="api-call")

    def run(self, chains: Sequence[Sequence[Call]]) -> list[list[Result]]:
        """Make the calls of every chain, up to the chain's first failure.

        Return, for each chain, the results of the calls that were made. The last result of a chain may be an error.
        Raises ClientClosed after `close()`, and TransportError if no thread can be started to send the calls.
        """
        batch = Batch(len(chains))
        running = [Chain(calls, batch) for calls in chains]
        if not running:
            return []
        with self._lock:
            if self._closed:
                raise ClientClosed("the client is closed")
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="api-calls", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise TransportError(f"no request can be sent: {error}") from error
                self._thread = thread
            self._waiting += running
        self._ring()
        batch.ended.wait()
        return [chain.results for chain in running]

    def close(self) -> None:
        """Refuse further chains, wait until all chains that were passed to `run` have ended, and end the threads.

        Idempotent.
        """
        with self._lock:
            self._closed = True
            thread = self._thread
        self._ring()
        if thread is not None:
            thread.join()
        self._threads.shutdown()
        self._bell.close()
        self._ringer.close()

    def _ring(self) -> None:
        # A failure to send is harmless: a full socket already wakes the thread, and a closed socket means that the
        # thread has ended.
        with contextlib.suppress(OSError):
            self._ringer.send(b"\0")

    # Methods that only the multiplexer's thread calls.

    def _work(self) -> None:
        going_on = True
        while going_on:
            try:
                going_on = self._begin_what_may()
                if going_on:
                    self._go_on()
            except Exception as error:  # the thread must survive any error, because other threads wait for it
                logger.exception("unexpected error while requests were running")
                abandoned, self._exchanges = [*self._exchanges.values()], {}
                for chain, exchange in abandoned:
                    self._guarded(chain, partial(self._fail, exchange=exchange, error=error))

    def _go_on(self) -> None:
        """Wait for events, and handle them."""
        self._gather()
        ready, self._ready = self._ready, set()
        for number in ready.union(number for number, _ in self._poll.poll(0 if ready else self._patience())):
            if number == self._bell.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._bell.recv(4096)
            else:
                self._advance(*self._exchanges[number])
        self._give_up_the_late()

    def _gather(self) -> None:
        """Wait a short time in which several responses arrive: a wake-up per response costs more than handling it."""
        seconds = self._looked_at + self._gathering.seconds(len(self._exchanges)) - time.monotonic()
        if seconds > 0 and not self._ready:
            time.sleep(seconds)
        self._looked_at = time.monotonic()

    def _begin_what_may(self) -> bool:
        """Begin calls while fewer than `parallelism` calls run.

        Return False when all calls are done after `close()`.
        """
        while True:
            with self._lock:
                if not self._waiting or self._under_way == self._parallelism:
                    return bool(self._waiting or self._under_way or not self._closed)
                chain = self._waiting.popleft()
                self._under_way += 1
            self._guarded(chain, self._begin)

    def _begin(self, chain: Chain) -> None:
        chain.began = time.perf_counter()
        exchange = self._session.begin(chain.call)
        if exchange is None:
            self._hand_over(chain, self._session.call)
            return
        self._exchanges[exchange.number] = chain, exchange
        self._late_at = min(self._late_at, exchange.late_at)
        self._advance(chain, exchange)

    def _advance(self, chain: Chain, exchange: Exchange) -> None:
        try:
            if not exchange.advance():
                self._poll.register(exchange.number, exchange.awaits)
                self._polled.add(exchange.number)
                if exchange.has_more:
                    self._ready.add(exchange.number)
                return
        except Exception as error:  # noqa: BLE001 - after any error the chain must go on or end
            self._guarded(chain, partial(self._fail, exchange=exchange, error=error))
            return
        self._forget(exchange)
        self._guarded(chain, partial(self._finish, exchange=exchange))

    def _finish(self, chain: Chain, exchange: Exchange) -> None:
        seconds = time.perf_counter() - chain.began
        try:
            answer = self._session.end(chain.call, exchange, seconds)
        except ApiError as error:
            if error.code != 401 and error.retry_after is None:
                raise
            self._hand_over(chain, partial(self._session.go_on, failure=error, authorization=exchange.authorization))
        else:
            # A refusal is fast even on a busy server, so it is not measured.
            self._gathering.took(chain.call.written, seconds)
            self._end(chain, answer)

    def _fail(self, chain: Chain, exchange: Exchange, error: Exception) -> None:
        self._forget(exchange)
        failure = self._session.fail(chain.call, exchange, error, time.perf_counter() - chain.began)
        if failure is None:
            self._hand_over(chain, self._session.call)
        else:
            self._end(chain, failure)

    def _patience(self) -> float | None:
        """Return the milliseconds until the next exchange may time out. Return None if there is no exchange."""
        return max(self._late_at - time.monotonic(), 0.0) * 1000 + 1 if self._exchanges else None

    def _give_up_the_late(self) -> None:
        now = time.monotonic()
        if now < self._late_at:
            return
        for chain, exchange in [under_way for under_way in self._exchanges.values() if under_way[1].late_at <= now]:
            late = TimeoutError("no answer came in time")
            self._guarded(chain, partial(self._fail, exchange=exchange, error=late))
        # Received bytes postpone the time limit of an exchange, so `_late_at` may be too early. An unnecessary check
        # costs less than finding the earliest time limit after each event.
        self._late_at = min((exchange.late_at for _, exchange in self._exchanges.values()), default=math.inf)

    def _forget(self, exchange: Exchange) -> None:
        number = exchange.number
        self._exchanges.pop(number, None)
        self._ready.discard(number)
        if number in self._polled:  # else it ended before it was polled
            self._polled.remove(number)
            self._poll.unregister(number)

    # Methods that any thread may call.

    def _guarded(self, chain: Chain, step: Callable[[Chain], None]) -> None:
        """Run a step of a chain's current call.

        If the step raises an error, end the call with this error, so that the caller of `run` does not wait for the
        chain without end.
        """
        try:
            step(chain)
        except KubeError as error:
            self._end(chain, error)
        except Exception as error:
            logger.exception("%s: unexpected error", chain.call.what)
            self._end(chain, TransportError(f"{chain.call.what}: {error}"))

    def _hand_over(self, chain: Chain, send: Callable[[Call], Response]) -> None:
        """Let another thread make the call.

        Raises RuntimeError if no thread can be started. In this case the call is never made.
        """
        call = chain.call
        taken = threading.Lock()  # by the thread that decides the result of the call; never released

        def make() -> None:
            if taken.acquire(blocking=False):
                self._guarded(chain, lambda chain: self._end(chain, send(call)))
                self._ring()

        try:
            self._threads.submit(make)
        except RuntimeError:
            # The executor can't start a thread, but still queues `make`, for a present or later thread.
            if taken.acquire(blocking=False):
                raise

    def _end(self, chain: Chain, result: Result) -> None:
        """End the current call. Continue with the next call of its chain, or end the chain."""
        if not chain.take(result):  # a bug: the chain had ended before
            return
        with self._lock:
            self._under_way -= 1
            if not chain.is_over:
                # The chain goes before chains that have not begun, because started chains end soon.
                self._waiting.appendleft(chain)
                return
            chain.batch.left -= 1
            ended = chain.batch.left == 0
        if ended:
            chain.batch.ended.set()
