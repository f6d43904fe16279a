import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tfoperator.api.replicas.parameter_server import PROGRAM, parameter_server_template
from tfoperator.api.replicas.templates import decode_template

# The parts of TensorFlow that the program uses; they print their arguments.
TENSORFLOW = """
import json

class train:
    @staticmethod
    def ClusterSpec(cluster):
        return cluster

    @staticmethod
    def Server(cluster, job_name, task_index):
        print(json.dumps([cluster, job_name, task_index]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    return tmp_path


def served(folder: Path, config: dict[str, Any]) -> tuple[Any, int]:
    """Return the arguments with which the server is started, and the exit code after SIGTERM."""
    environ = {**os.environ, "TF_CONFIG": json.dumps(config), "PYTHONPATH": str(folder)}
    command = [sys.executable, "-u", "-c", PROGRAM]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            asked = json.loads(process.stdout.readline())
            assert process.stdout.readline() == f"parameter server {config['task']['index']} serves\n"
            process.send_signal(signal.SIGTERM)
            return asked, process.wait(20)
        finally:
            process.kill()


def test_it_serves_its_task_and_ends_when_asked_to(folder: Path) -> None:
    cluster = {"ps": ["a:1", "b:1"], "worker": ["c:1"]}
    config = {"cluster": cluster, "task": {"type": "ps", "index": 1}, "environment": "cloud"}
    assert served(folder, config) == ([cluster, "ps", 1], 143)


def test_with_dynamic_workers_it_knows_its_own_address_by_its_index(folder: Path) -> None:
    config = {"cluster": {"worker": {}, "ps": ["b:1"]}, "task": {"type": "ps", "index": 1}}
    assert served(folder, config) == ([{"ps": {"1": "b:1"}}, "ps", 1], 143)


def test_the_template_has_the_container_that_trains() -> None:
    template = decode_template(msgspec.Raw(json.dumps(parameter_server_template("example.com/tf:2")).encode()))
    assert [(c.name, c.image) for c in template.spec.containers] == [("tensorflow", "example.com/tf:2")]
    assert template.spec.containers[0].ports == ()  # so the default port is added
