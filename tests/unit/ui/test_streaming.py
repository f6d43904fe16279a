"""The parts that all streams of the page share."""

import asyncio

from tfoperator.ui.listening import Listeners
from tfoperator.ui.streaming import next_changes


def test_a_stream_goes_on_in_time_although_other_jobs_change_all_the_time() -> None:
    """After 25 s without a line, the page treats its connection as broken."""

    async def changes() -> set[str]:
        listeners = Listeners()
        with listeners.listening() as listener:

            async def others() -> None:
                while True:
                    listeners.tell("default/other")
                    await asyncio.sleep(0.01)

            busy = asyncio.create_task(others())
            try:
                async with asyncio.timeout(30):
                    return await next_changes(listener, 0.3, of={"default/mine", ""})
            finally:
                busy.cancel()

    assert asyncio.run(changes()) == set()
