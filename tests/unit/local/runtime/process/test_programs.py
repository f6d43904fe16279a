import pytest

from tfoperator.local.runtime.process.programs import visible_devices

OWN = ("GPU-aa", "GPU-bb")


@pytest.mark.parametrize(
    ("own", "asked", "value"),
    [
        (OWN, None, "GPU-aa,GPU-bb"),
        ((), None, "-1"),
        ((), "0,1", "-1"),
        (OWN, "0", "GPU-aa"),
        (OWN, " 1, 0 ", "GPU-bb,GPU-aa"),
        (OWN, "GPU-b", "GPU-bb"),
        *((OWN, asked, "-1") for asked in ("GPU-", "GPU-cc", "", "-1", "all")),
        (OWN, "0,2,1", "GPU-aa"),
        (OWN, "1,1", "GPU-bb"),
    ],
)
def test_only_own_devices_are_ever_seen(own: tuple[str, ...], asked: str | None, value: str) -> None:
    assert visible_devices(own, asked) == value
