"""Measures data services: steps per second by the number of data workers, and how often elements are seen after an end.

    python -m hack.data_service

It writes the picture docs/data-service.svg, and prints the table of docs/data-service.md. The pipeline is taken from
the example in examples/data-service: each element takes some milliseconds to prepare. Elements wait and don't compute,
so the servers can be threads of this process. It takes half a minute on an idle machine of 2 cores.
"""

from __future__ import annotations

import collections
import importlib
import runpy
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "data-service.svg"
PROGRAM = ROOT / "examples" / "data-service" / "train.py"

NUMBERS = (0, 1, 2, 4)
"""The numbers of data workers in the picture."""

_ELEMENTS, _WAIT = 200, 20
"""Elements of a reading, and milliseconds that each takes to prepare."""

_LIMIT = 30.0
"""Seconds for one reading; the readings take some 2 to 8."""

_BAR, _GAP, _HEIGHT, _TOP, _LEFT = 70, 30, 200, 40, 60

ENDS = ("", "data worker", "dispatcher")
"""The server that ends after a quarter of a reading, and is started again; "" for none."""


class Service:
    """A dispatcher and data workers in this process. `journal` is the dispatcher's directory; "" for none."""

    def __init__(self, tf: Any, workers: int, journal: str = "") -> None:
        self._tf = tf.data.experimental.service
        self._journal = journal
        self._port, *self._ports = (_free_port() for _ in range(workers + 1))
        self._dispatcher = self._make_dispatcher()
        self._workers = [self._make_worker(port) for port in self._ports]

    @property
    def address(self) -> str:
        """The address for `distribute`."""
        return f"grpc://localhost:{self._port}"

    def end(self, server: str) -> None:
        """End a server of ENDS at once, and start it again at its address."""
        if server == "dispatcher":
            self._dispatcher._stop()
            self._dispatcher = self._make_dispatcher()
        elif server:
            self._workers[0]._stop()
            self._workers[0] = self._make_worker(self._ports[0])

    def close(self) -> None:
        """End all servers."""
        for server in (*self._workers, self._dispatcher):
            server._stop()

    def _make_dispatcher(self) -> Any:
        config = self._tf.DispatcherConfig(
            port=self._port,
            protocol="grpc",
            work_dir=self._journal or None,
            fault_tolerant_mode=bool(self._journal),
        )
        return self._tf.DispatchServer(config)

    def _make_worker(self, port: int) -> Any:
        config = self._tf.WorkerConfig(
            dispatcher_address=f"localhost:{self._port}",
            worker_address=f"localhost:{port}",
            port=port,
            protocol="grpc",
        )
        return self._tf.WorkerServer(config)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def service(tf: Any, workers: int, *, journal: bool = False) -> Iterator[Service]:
    """Serve within the `with` block."""
    with tempfile.TemporaryDirectory() as folder:
        data_service = Service(tf, workers, folder if journal else "")
        try:
            yield data_service
        finally:
            data_service.close()


def steps_per_second(tf: Any, pipeline: Any, workers: int) -> float:
    """Return the rate of a loop that reads the pipeline from so many data workers; 0 for none."""
    with service(tf, max(workers, 1)) as served:
        dataset = _distributed(tf, pipeline, served, "DYNAMIC") if workers else pipeline
        elements = iter(dataset)
        next(elements)
        began = time.monotonic()
        steps = sum(1 for _ in elements)
        return steps / (time.monotonic() - began)


def seen(tf: Any, pipeline: Any, policy: str, end: str) -> str:
    """Return how often elements were seen with two data workers of which one ends, or whose dispatcher ends."""
    counts: collections.Counter[int] = collections.Counter()
    with service(tf, 2, journal=end == "dispatcher") as served:
        problem = _read(tf, _distributed(tf, pipeline, served, policy), counts, lambda: served.end(end))
    if problem:
        return f"the reading fails: {problem}"
    times = collections.Counter(counts[element] for element in range(_ELEMENTS))
    return ", ".join(f"{number} elements {count} times" for count, number in sorted(times.items()))


def _read(tf: Any, dataset: Any, counts: collections.Counter[int], after_a_quarter: Callable[[], None]) -> str:
    """Count the elements of a dataset, and call back once; return the error, or that it did not end in time."""
    problems: list[str] = []

    def read() -> None:
        try:
            for element in dataset:
                counts[int(element)] += 1
        except tf.errors.OpError as error:
            problems.append(type(error).__name__)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    limit = time.monotonic() + _LIMIT
    while thread.is_alive() and counts.total() < _ELEMENTS // 4 and time.monotonic() < limit:
        time.sleep(0.01)
    if thread.is_alive():
        after_a_quarter()
    thread.join(_LIMIT)
    return "it does not end" if thread.is_alive() else "".join(problems)


def _distributed(tf: Any, pipeline: Any, served: Service, policy: str) -> Any:
    module = tf.data.experimental.service
    mode = getattr(module.ShardingPolicy, policy)
    return pipeline.apply(module.distribute(processing_mode=mode, service=served.address))


def picture(rates: Mapping[int, float]) -> str:
    """Return a bar chart of the steps per second by the number of data workers, as SVG."""
    width = _LEFT + len(rates) * (_BAR + _GAP) + _GAP
    highest = max(rates.values())
    bars = []
    for position, (workers, rate) in enumerate(rates.items()):
        left, height = _LEFT + _GAP + position * (_BAR + _GAP), _HEIGHT * rate / highest
        middle, top = left + _BAR / 2, _TOP + _HEIGHT - height
        bars.append(
            f'<rect x="{left}" y="{top:.1f}" width="{_BAR}" height="{height:.1f}" fill="#4051b5"/>'
            f'<text x="{middle}" y="{top - 6:.1f}">{rate:.1f}</text>'
            f'<text x="{middle}" y="{_TOP + _HEIGHT + 20}">{workers or "none"}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_TOP + _HEIGHT + 50}" '
        'font-family="sans-serif" font-size="14" text-anchor="middle" role="img">\n'
        "<title>Steps per second by the number of data workers</title>\n"
        f'<rect width="{width}" height="{_TOP + _HEIGHT + 50}" fill="white"/>\n'
        + "\n".join(bars)
        + f'\n<text x="{width / 2}" y="{_TOP + _HEIGHT + 42}">data workers</text>'
        f'\n<text x="{width / 2}" y="18">steps per second</text>\n</svg>\n'
    )


def main() -> None:
    """Measure, print the table, and write the picture."""
    tf: Any = importlib.import_module("tensorflow")  # Imported late: it takes seconds, and has no types.

    slowly = runpy.run_path(str(PROGRAM))["slowly"]
    pipeline = tf.data.Dataset.range(_ELEMENTS).map(lambda element: slowly(element, _WAIT))
    rates = {}
    for workers in NUMBERS:
        rates[workers] = steps_per_second(tf, pipeline, workers)
        print(f"{workers} data workers: {rates[workers]:.1f} steps per second", flush=True)
    PICTURE.write_text(picture(rates))
    for policy in ("OFF", "DYNAMIC", "FILE", "DATA", "FILE_OR_DATA", "HINT"):
        for end in ENDS if policy in ("OFF", "DYNAMIC") else ("",):
            print(f"{policy}, end of {end or 'nothing'}: {seen(tf, pipeline, policy, end)}", flush=True)


if __name__ == "__main__":
    main()
