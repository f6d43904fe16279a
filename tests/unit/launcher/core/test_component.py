from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfoperator.launcher import Component, ComponentError, ExecutorClassSpec, ExecutorContainerSpec


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "default", "..", "x" * 201, "a-"])
def test_a_name_that_can_not_be_a_directory_or_a_label_is_refused(name: str) -> None:
    with pytest.raises(ComponentError):
        Component(name, ExecutorContainerSpec("i"))


@pytest.mark.parametrize(
    "fields", [{"image": ""}, {"image": "i", "command": "sh"}, {"image": "i", "args": [1]}, {"image": None}]
)
def test_a_container_is_an_image_and_words(fields: Any) -> None:
    with pytest.raises(ComponentError):
        ExecutorContainerSpec(**fields)


@pytest.mark.parametrize(
    "path", ["", "nowhere:X", "tests.unit.launcher.executors", "tests.unit.launcher.executors:NoExecutor", "os:nope"]
)
def test_a_path_that_leads_to_no_executor_is_refused(path: str) -> None:
    with pytest.raises(ComponentError):
        ExecutorClassSpec(path).load()


def test_whose_module_is_not_found_is_told_where_modules_are_looked_for() -> None:
    with pytest.raises(ComponentError, match="No module named 'nowhere'; PYTHONPATH"):
        ExecutorClassSpec("nowhere:X").load()


def test_a_module_that_ends_the_process_when_it_is_imported_is_no_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "exits_at_import.py").write_text("import sys\nsys.exit(4)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ComponentError, match=r"exits_at_import.*sys\.exit\(4\)"):
        ExecutorClassSpec("exits_at_import:X").load()
