import pytest

from hack import straggler_alarms
from tfoperator.servers.progress import paces

FEW = ["--hours", "20", "--trials", "40"]


def test_slow_replicas_are_found_in_a_minute_and_none_wrongly() -> None:
    assert straggler_alarms.main(FEW) == 0


@pytest.mark.parametrize(("name", "value"), [("_SLOW", 1.05), ("_SLOW", 1.9), ("_WINDOW", 120.0)])
def test_other_numbers_do_not_do(name: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paces, name, value)
    assert straggler_alarms.main(FEW) == 1
