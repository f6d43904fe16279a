"""The program of docs/reference/launcher-python.md, which has an executor, a launcher and a runner, runs unchanged."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.docs.test_pages import ROOT, blocks
from tfoperator.launcher import Artifact, ComponentError, InProcessComponentLauncher
from tfoperator.pipeline import PipelineRunner
from tfoperator.pipeline.pipeline_file import load_pipeline_file

PAGE = ROOT / "docs/reference/launcher-python.md"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, as a module in a folder of its own, which is the current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (text,) = [block for block in blocks(PAGE, "python") if "class OneAfterTheOther" in block]
    (tmp_path / "own_parts.py").write_text(text)
    (tmp_path / "text").write_text("a\nb\nc\n")
    spec = importlib.util.spec_from_file_location("own_parts", tmp_path / "own_parts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "own_parts", module)
    spec.loader.exec_module(module)
    return module


def test_the_runner_of_the_page_runs_the_executor_and_the_launcher_of_the_page(own: ModuleType, tmp_path: Path) -> None:
    runner = own.OneAfterTheOther([InProcessComponentLauncher, own.TimedLauncher])
    for _ in range(2):  # each run has a place of its own
        results = runner.run(own.create_pipeline(str(tmp_path / "text"), str(tmp_path / "root")))
        assert list(results) == ["Count", "Greet"]
        (count,) = results["Count"].outputs["count"]
        assert (count.properties, Path(count.uri).read_text()) == ({"lines": 3}, "3")
        assert Path(results["Greet"].outputs["card"][0].uri).read_text() == "LINES: 3\n"
        assert results["Greet"].exec_properties == {"greeting": "LINES:"}
    assert len(list((tmp_path / "root/Greet/card").iterdir())) == 2


def test_our_runner_takes_both_and_records_what_ran(own: ModuleType, tmp_path: Path) -> None:
    loaded = load_pipeline_file(str(tmp_path / "own_parts.py"), {"text": str(tmp_path / "text"), "root": "root"})
    again = [
        PipelineRunner([InProcessComponentLauncher, sys.modules["own_parts"].TimedLauncher], home=tmp_path / "home")
        for _ in range(2)
    ]
    first = again[0].run(loaded.pipeline)
    assert first.results["Greet"].exec_properties == {"greeting": "LINES:"}
    assert first.results["Count"].outputs["count"] == (
        Artifact(first.results["Count"].outputs["count"][0].uri, {"lines": 3}),
    )
    with pytest.raises(ComponentError, match="no launcher accepts"):
        own.OneAfterTheOther([InProcessComponentLauncher]).run(loaded.pipeline)
