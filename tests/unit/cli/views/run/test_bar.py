from tests.unit.cli.views.test_progress import FULL, NOW
from tfoperator.api.v1.parts.progress import Metric, TrainingProgress
from tfoperator.cli.views.run.bar import progress_line


def test_a_line_has_a_bar_of_one_width_and_controls_no_terminal() -> None:
    strange = TrainingProgress(completion="100%", percentage=100, metrics=(Metric("loss", "\x1b[2J"),))
    lines = [progress_line("job", progress, NOW).plain for progress in (FULL, strange, TrainingProgress())]
    assert lines[0] == "job  " + "━" * 10 + "─" * 14 + "  43%  430/1000  ETA 3m20s  loss 0.2346  accuracy 0.9123  a 1"
    assert "━" * 24 in lines[1]
    assert "\x1b" not in lines[1]
    assert "─" * 24 in lines[2]
