"""Sends an answer that has no known end, as far as its client is there and reads."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from tfoperator.servers.http.messages import StreamedAnswer, encode_head


async def send_stream(
    answer: StreamedAnswer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stall_seconds: float
) -> None:
    """Send the chunks until there are no more, or the client has left; an empty chunk ends it, too.

    Raises TimeoutError if the client has not taken a chunk after `stall_seconds`, and whatever the chunks raise. They
    are closed in every case.
    """
    async with aclosing(answer.chunks) as chunks:
        writer.write(encode_head(answer, last=True))
        # A client that waits for an answer says nothing more: what comes is its end.
        left = asyncio.ensure_future(reader.read(1))
        upcoming: asyncio.Future[bytes] | None = None
        try:
            while True:
                upcoming = asyncio.ensure_future(anext(chunks, b""))
                await asyncio.wait((upcoming, left), return_when=asyncio.FIRST_COMPLETED)
                if left.done() or not upcoming.result():
                    return
                writer.write(upcoming.result())
                async with asyncio.timeout(stall_seconds):
                    await writer.drain()
        finally:
            # Both have to be over before the generator can be closed.
            ending = [one for one in (left, upcoming) if one is not None and not one.done()]
            for one in ending:
                one.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
