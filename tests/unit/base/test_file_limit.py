import resource
import subprocess
import sys

import pytest

from tfoperator.base.file_limit import WANTED, raised

NONE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "limit"),
    [
        (256, NONE, WANTED),  # macOS
        (1024, 4096, 4096),
        (1024, 1_048_576, WANTED),
        (1024, 1024, 1024),
        (20_000, 1_048_576, 20_000),
        (NONE, NONE, NONE),
    ],
)
def test_a_limit_is_raised_as_far_as_it_may_and_never_lowered(soft: int, hard: int, limit: int) -> None:
    assert raised(soft, hard) == limit


PROGRAM = """
import resource
from tfoperator.base.file_limit import raise_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200))
raise_file_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_it_holds_for_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["200", "200"]
