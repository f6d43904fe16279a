from contextlib import nullcontext
from pathlib import Path

import pytest

from tfoperator.base.files import hold_lock, local_path, take_lock


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/a/b", Path("/a/b")),
        ("file:///a%20b", Path("/a b")),
        ("gs://bucket/x", None),
        ("http://[x", None),
        ("//[x", Path("//[x")),
    ],
)
def test_a_uri_is_a_path_of_this_machine_or_of_another_place(uri: str, path: Path | None) -> None:
    assert local_path(uri) == path


def test_a_lock_that_another_holds_is_not_taken(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("wb") as holder, (tmp_path / "lock").open("rb") as other:
        assert take_lock(holder.fileno())
        assert not take_lock(other.fileno(), shared=True)
        assert hold_lock(tmp_path / "lock", 0.01) is None
    with hold_lock(tmp_path / "lock") or nullcontext() as held:
        assert held is not None
