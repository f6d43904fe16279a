import random
from pathlib import Path

import pytest

from hack import fuzz_decoders
from hack.decoders import Decoder, decoders


def test_no_byte_stream_of_a_small_fixed_number_raises_what_is_not_declared_and_each_depends_on_its_seed() -> None:
    accepted = fuzz_decoders.fuzz("unit", range(2000))
    assert sum(accepted.values()) > 200
    samples = (b"abc", b"def" * 50)
    first = [fuzz_decoders.spoilt(random.Random(f"a:{number}"), samples) for number in range(50)]
    assert first == [fuzz_decoders.spoilt(random.Random(f"a:{number}"), samples) for number in range(50)]
    assert len(set(first)) > 20


def test_every_decoder_reads_one_of_its_samples(tmp_path: Path) -> None:
    with decoders(tmp_path) as all_decoders:
        assert len({decoder.name for decoder in all_decoders}) == len(all_decoders)
        for decoder in all_decoders:
            assert any(fuzz_decoders.check(decoder, sample) for sample in decoder.samples), decoder.name


@pytest.mark.parametrize("piece", [b"[", b'{"a":', b"- ", b"a: {", b"(", b"\x0a\x02"])
def test_no_depth_breaks_a_decoder(piece: bytes, tmp_path: Path) -> None:
    """A step's output of many brackets ended the runner of a pipeline, and the steps beside it."""
    with decoders(tmp_path) as all_decoders:
        for decoder in all_decoders:
            for count in (1_100, 20_000):
                fuzz_decoders.check(decoder, piece * count)


def test_an_undeclared_error_is_found_and_can_be_replayed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(_: bytes) -> None:
        raise IndexError("oh")

    class Broken:
        def __init__(self, _: Path) -> None:
            pass

        def __enter__(self) -> list[Decoder]:
            return [Decoder("broken", (b"x",), breaks, (KeyError,))]

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(fuzz_decoders, "decoders", Broken)
    assert fuzz_decoders.main(["--seed", "unit", "--count", "5", "--memory", "0"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "seed unit\n"
    assert "seed unit, number 0, broken: IndexError('oh')" in captured.err


def test_a_decoder_that_takes_too_long_is_found_and_one_that_is_not_there_answered_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz_decoders, "SLOW_SECONDS", 0.0)
    with pytest.raises(AssertionError, match="took"):
        fuzz_decoders.check(Decoder("slow", (b"",), len, ()), b"x")
    assert fuzz_decoders.main(["--only", "nothing", "--count", "1", "--memory", "0"]) == 1
    assert "kubeconfig" in capsys.readouterr().err
