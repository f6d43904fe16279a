"""Stands in for `pynvml` where this folder comes first on the path; see `tests.support.nvml`."""

import os
from typing import Any

from tests.support.nvml import VARIABLE, FakeNvml

_machine = FakeNvml([device for device in os.environ.get(VARIABLE, "").split(",") if device])


def __getattr__(name: str) -> Any:
    return getattr(_machine, name)
