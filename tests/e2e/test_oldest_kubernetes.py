"""The configuration of clusters with the oldest `kubernetes` package that setup.cfg allows, which TFX's users have."""

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack import strangers

pytestmark = pytest.mark.timeout(400)

ROOT = Path(__file__).parents[2]


def test_the_tests_of_the_configuration_pass_with_the_oldest_package() -> None:
    packages = str(next(strangers.find(strangers.KUBERNETES).parents[1].glob("lib/python*/site-packages")))
    path = {**os.environ, "PYTHONPATH": packages}
    shown = subprocess.run(
        [sys.executable, "-c", "import kubernetes; print(kubernetes.__version__)"],
        env=path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    assert f"kubernetes>={shown.stdout.strip().removesuffix('.0')}," in config["options"]["install_requires"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/kube/config"],
        cwd=ROOT, env=path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
