import pytest
import requests
from docker.errors import APIError, DockerException

from tfoperator.local.runtime.docker.engine import connect, explain
from tfoperator.local.runtime.protocol import RuntimeUnavailable


def test_no_engine_is_explained_and_one_is_quoted_without_its_wrapping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(RuntimeUnavailable, match=r"can't reach a Docker engine: .*refused.*DOCKER_HOST"):
        connect()
    assert explain(APIError("404 Client Error", explanation="no such image\n")) == "no such image"
    wrapped = requests.exceptions.ConnectionError("('Connection aborted.', ...)")
    wrapped.__context__ = ConnectionRefusedError(111, "Connection refused")
    assert explain(wrapped) == "[Errno 111] Connection refused"
    assert explain(DockerException()) == "DockerException"
