from contextlib import nullcontext
from pathlib import Path

from tfoperator.base.files import hold_lock, take_lock


def test_a_lock_that_another_holds_is_not_taken(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("wb") as holder, (tmp_path / "lock").open("rb") as other:
        assert take_lock(holder.fileno())
        assert not take_lock(other.fileno(), shared=True)
        assert hold_lock(tmp_path / "lock", 0.01) is None
    with hold_lock(tmp_path / "lock") or nullcontext() as held:
        assert held is not None
