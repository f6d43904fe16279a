from pathlib import Path

import pytest

from tests.unit.pipeline.samples import DONE, ON_THE_WAY, diamond, fails, home_of, runner
from tfoperator.launcher import ComponentError, RetryableFailure
from tfoperator.pipeline import PipelineFailed


@pytest.mark.usefixtures("place")
def test_a_given_id_stays_the_run_of_the_pipeline_that_began_it(tmp_path: Path) -> None:
    """A user who gives the id with other parameters gets no second run of this id, and the first record stays."""
    ON_THE_WAY["left"] = fails(RetryableFailure("busy"))
    with pytest.raises(PipelineFailed):
        runner(tmp_path).run(diamond(tmp_path), run_id="job-1", parameters={"alpha": 1})
    ON_THE_WAY.clear()
    DONE.clear()
    home = home_of(tmp_path)
    with home.store() as store:
        begun = store.run("job-1")
    assert begun is not None
    with pytest.raises(ComponentError, match="run job-1 had another pipeline or other parameters"):
        runner(tmp_path).run(diamond(tmp_path, left=20), run_id="job-1")
    assert DONE == []
    result = runner(tmp_path).run(diamond(tmp_path), run_id="job-1")
    with home.store() as store:
        ended = store.run(result.run_id)
    assert ended is not None
    assert (ended.began, ended.parameters) == (begun.began, {"alpha": 1})
