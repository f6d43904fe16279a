"""Tests all decoders of bytes from a network or a file with damaged bytes: they may raise only declared errors.

python hack/fuzz_decoders.py                          100,000 byte streams from a new seed, which it prints
python hack/fuzz_decoders.py --seed 7 --count 1000    the same thousand each time
python hack/fuzz_decoders.py --seed 7 --first 812 --count 1    one of them again
python hack/fuzz_decoders.py --only watch             one decoder; hack/decoders lists them

A byte stream depends only on the seed, its number, the list of decoders and the examples. It is also a finding if a
stream takes more than two seconds of CPU, or if the process needs more than 512 MiB for the stream.
"""

from __future__ import annotations

import logging
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hack.decoders import Decoder, decoders
from hack.fuzz import Finding, Progress, parser, run
from hack.random_jobs import damaged

SLOW_SECONDS = 2.0
_MEMORY = 512

_PIECES = (
    # of JSON and UTF-8
    b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x00", b"\\ud800", b'"\\u0000"', b"\xc3\xa9", b"null", b"-1", b"1e999",
    b"0" * 400, b"9" * 400, b"[" * 1200, b'{"a":' * 1200, "\u00b2".encode(), "\u0663".encode(),
    b"2026-13-01T00:00:00Z", b"2026-01-01T00:00:00+99:99",
    # of YAML
    b"\n", b": ", b"- ", b"&a *a ", b"<<: *a", b"!!python/x ", b"---\n", b"|\n", b"? ",
    # of HTTP, and of the rest
    b"\r\n", b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"Content-Length: 5\r\n", b"0\r\n\r\n", b"fffffffffffffff\r\n",
    b"{{", b"}}", b"=", b"%", b"~1",
)  # fmt: skip


def spoilt(rng: random.Random, samples: Sequence[bytes]) -> bytes:
    """One of the samples, with something wrong about it (or, rarely, nothing)."""
    data = rng.choice(samples)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8))):
        if not data:
            break
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 | 1:
                data = damaged(rng, data)
            case 2 | 3:
                data = data[:at] + rng.choice(_PIECES) + data[at:]
            case 4:
                data = data[:at]
            case 5:
                start = rng.randrange(len(data))
                data = data[:at] + data[start : start + rng.choice((1, 10, 200))] + data[at:]
            case _:
                other = rng.choice(samples)
                data = data[:at] + other[rng.randrange(len(other) + 1) :]
    return data


def fuzz(seed: str, numbers: Sequence[int], only: str = "", progress: Progress = lambda _: None) -> Counter[str]:
    """Check the streams of these numbers; returns how many were read without an error, by decoder.

    Raises Finding at the first bad stream.
    """
    accepted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="tfoperator-fuzz-") as folder, decoders(Path(folder)) as every_decoder:
        chosen = [candidate for candidate in every_decoder if only in ("", candidate.name)]
        if not chosen:
            raise Finding(
                f"there is no decoder {only!r}, but {', '.join(candidate.name for candidate in every_decoder)}"
            )
        for number in numbers:
            rng = random.Random(f"{seed}:{number}")
            [decoder] = rng.choices(chosen, weights=[candidate.weight for candidate in chosen])
            data = spoilt(rng, decoder.samples)
            try:
                accepted[decoder.name] += check(decoder, data)
            except Exception as error:
                case = f"seed {seed}, number {number}, {decoder.name}: {error!r}"
                raise Finding(f"{case}\n{data[:2000]!r} ({len(data)} bytes)") from error
            progress(number)
    return accepted


def check(decoder: Decoder, data: bytes) -> bool:
    """Whether the bytes were read. Raises whatever is no declared error, and AssertionError if that took too long."""
    began = time.process_time()
    try:
        decoder.read(data)
    except decoder.declared:
        return False
    finally:
        spent = time.process_time() - began
        assert spent < SLOW_SECONDS, f"took {spent:.1f} s"
    return True


@contextmanager
def _bounded(memory: int) -> Iterator[None]:
    """Limit the memory to so many bytes, with the memory that this process has already; 0 means any number."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the streams and say how it went; returns the exit code."""
    options = parser(__doc__, "stream")
    options.add_argument("--only", default="", help="the name of one decoder")
    options.add_argument("--memory", type=int, default=_MEMORY, help="MiB that the process may have; 0: any number")
    arguments = options.parse_args(argv)

    def check_numbers(numbers: Sequence[int], progress: Progress) -> str:
        accepted = fuzz(arguments.seed, numbers, arguments.only, progress)
        read = ", ".join(f"{name} {count}" for name, count in sorted(accepted.items()) if count)
        return f"byte streams (read all the same: {read})"

    logging.disable(logging.CRITICAL)  # for spoilt files the code logs warnings
    try:
        with _bounded(arguments.memory << 20):
            return run(arguments, check_numbers)
    finally:
        logging.disable(logging.NOTSET)


if __name__ == "__main__":
    sys.exit(main())
