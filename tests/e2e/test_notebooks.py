"""The notebooks of the examples, executed by a real kernel."""

import nbformat
import pytest

from hack.notebook import NOTEBOOKS, execute, without_places


@pytest.mark.timeout(600)
def test_the_notebook_trains_and_shows_how_it_went() -> None:
    path = NOTEBOOKS / "local-training.ipynb"
    cells = without_places(execute(path)).cells
    run = next(cell for cell in cells if "run_locally(train" in cell.source)
    table, lines, result = run.outputs
    assert "worker-1" in table.data["text/html"]
    for worker in range(2):
        assert f"[worker-{worker}] step 150 of worker {worker} of 2: loss" in lines.text
    assert "Succeeded" in result.data["text/html"]
    failure = next(cell for cell in cells if "run_locally(broken" in cell.source).outputs[-1]
    assert "FileNotFoundError: /data/mnist: there is no such data set" in failure.text
    # The output that readers see was made by the cells that they read.
    kept = nbformat.read(path, as_version=4)
    assert [cell.source for cell in kept.cells] == [cell.source for cell in cells]
    assert "[worker-1] step 150 of worker 1 of 2: loss" in kept.cells[cells.index(run)].outputs[1].text
