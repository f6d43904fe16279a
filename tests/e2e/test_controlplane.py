"""The control plane of the tests themselves."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tfoperator.local.identity import identify

pytestmark = pytest.mark.controlplane

ROOT = Path(__file__).parents[2]
MAKER = """
import json, signal, sys
from pathlib import Path
from hack.controlplane import ControlPlane

plane = ControlPlane(Path(sys.argv[1]))
plane.start()
print(json.dumps(plane.pids), flush=True)
signal.pause()
"""


def test_nothing_of_it_outlives_a_maker_that_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", MAKER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE) as maker:
        try:
            assert maker.stdout is not None
            pids = json.loads(maker.stdout.readline())
        finally:
            maker.send_signal(signal.SIGKILL)
    assert set(pids) == {"etcd", "kube-apiserver", "kube-controller-manager"}
    eventually(lambda: not any(map(identify, pids.values())), what="all have ended")
