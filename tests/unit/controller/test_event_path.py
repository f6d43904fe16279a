"""How much of the house one event goes through, from a pod's failure to the creation of its successor."""

from __future__ import annotations

import pytest

from hack.event_path import trace

MOST_FILES = {1: 79, 8: 88}
"""By the number of pods that fail at once. Only ever lowered."""

MOST_CHANGES_OF_THREADS = {1: 4, 8: 5}

MOST_LINES = 300
STILL_LARGER = {
    "tfoperator/api/v1/types.py",
    "tfoperator/controller/plan/replicas.py",
    "tfoperator/informers/reflector/reflector.py",
    "tfoperator/kube/client.py",
    "tfoperator/kube/http/session.py",
    "tfoperator/kube/http/transport.py",
}
"""To be taken from here when they are not any more; nothing is added."""


@pytest.mark.parametrize("failures", MOST_FILES)
def test_the_way_of_a_failed_pod_to_its_successor_is_short(failures: int) -> None:
    path = trace(failures)
    assert "tfoperator/controller/controller.py" in path.files, path
    assert len(path.files) <= MOST_FILES[failures], path
    assert len(path.threads) - 1 <= MOST_CHANGES_OF_THREADS[failures], path
    assert {file for file, lines in path.files.items() if lines > MOST_LINES} <= STILL_LARGER, path
