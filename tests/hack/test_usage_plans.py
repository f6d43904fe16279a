import msgspec
import pytest

from hack import usage_plans


def test_the_operator_and_the_oracle_agree() -> None:
    assert usage_plans.main(["--count", "12"]) == 0


def test_an_operator_that_loses_what_was_written_does_not_agree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kill = usage_plans.World.kill_operator

    def erase(world: usage_plans.World, seconds: int) -> None:
        kill(world, seconds)
        world.job = msgspec.structs.replace(world.job, status=msgspec.structs.replace(world.job.status, usage=None))

    monkeypatch.setattr(usage_plans.World, "kill_operator", erase)
    assert usage_plans.main(["--count", "12"]) == 1
    assert "seed" in capsys.readouterr().out
