from pathlib import Path
from typing import Any

import pytest

from tfoperator.launcher import Component, ComponentError, ExecutorClassSpec, ExecutorContainerSpec


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "default", "..", "x" * 201, "a-"])
def test_a_name_that_can_not_be_a_directory_or_a_label_is_refused(name: str) -> None:
    with pytest.raises(ComponentError):
        Component(name, ExecutorContainerSpec("i"))


@pytest.mark.parametrize("fields", [{"image": ""}, {"command": "sh"}, {"args": [1]}, {"image": None}])
def test_a_container_is_an_image_and_words(fields: Any) -> None:
    with pytest.raises(ComponentError):
        ExecutorContainerSpec(**{"image": "i", **fields})


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", None),
        ("nowhere:X", "No module named 'nowhere'; Python looks in the folders of PYTHONPATH"),
        ("tests.unit.launcher.executors", None),
        ("tests.unit.launcher.executors:NoExecutor", None),
        ("os:nope", None),
    ],
)
def test_a_path_that_leads_to_no_executor_is_refused(path: str, words: str | None) -> None:
    with pytest.raises(ComponentError, match=words):
        ExecutorClassSpec(path).load()


def test_a_module_that_ends_the_process_is_no_executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "exits_at_import.py").write_text("import sys\nsys.exit(4)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ComponentError, match=r"exits_at_import.*sys\.exit\(4\)"):
        ExecutorClassSpec("exits_at_import:X").load()
