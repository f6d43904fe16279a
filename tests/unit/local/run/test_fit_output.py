"""The output of Keras 2, Keras 3 and tqdm, and the progress that follows from it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfoperator.local.run.fit_output import FitOutput
from tfoperator.servers.progress.reports import ProgressReport

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BAR = "\x1b[1m {step}/300\x1b[0m \x1b[32m━━━━━\x1b[0m\x1b[37m━━━━━━━━━━━━━━━\x1b[0m \x1b[1m8s\x1b[0m 37ms/step"
METRICS = " - accuracy: 0.9100 - loss: 1.2e-04"


def bar(step: int) -> str:
    return BAR.format(step=step) + METRICS


def read(output: FitOutput, *lines: str, after: float = 0.0) -> ProgressReport:
    progress = output.read(lines, 100.0 + after, NOW)
    assert progress is not None
    return progress


def test_a_line_says_step_percentage_metrics_and_the_time_left_by_the_pace_of_this_fit() -> None:
    progress = read(FitOutput(), "Epoch 2/5", bar(75))
    assert (progress.step, progress.total_steps, progress.percentage) == (375, 1500, 25)
    assert progress.estimated_remaining_seconds is None
    assert {metric.name: metric.value for metric in progress.metrics} == {
        "epoch": "2",
        "accuracy": "0.9100",
        "loss": "1.2e-04",
    }
    output = FitOutput()
    read(output, "Epoch 1/2", bar(100))
    progress = read(output, bar(200), after=10)
    assert progress.estimated_remaining_seconds == 40
    read(output, "Epoch 1/2", bar(100), after=1000)  # the program has called fit again
    progress = read(output, bar(200), after=1020)
    assert progress.estimated_remaining_seconds == 80


@pytest.mark.parametrize(
    ("line", "step"),
    [("300/300 - 9s - 30ms/step - loss: 1.9", 600), ("     12/Unknown \x1b[1m3s\x1b[0m 20ms/step - loss: 1", None)],
)
def test_other_forms_of_a_line(line: str, step: int | None) -> None:
    progress = read(FitOutput(), "Epoch 2/4", line)
    assert (progress.step, progress.percentage) == (step, 50 if step else 25)


def test_bars_of_keras_2_are_read_as_those_of_keras_3() -> None:
    output = FitOutput()
    state = "30/70 [===========>..................] - ETA: 1s - loss: 0.5100 - accuracy: 0.8000"
    progress = read(output, "Epoch 2/2", "\b" * 80 + state)
    assert (progress.step, progress.total_steps, progress.percentage) == (100, 140, 71)
    assert {metric.name: metric.value for metric in progress.metrics} == {
        "epoch": "2",
        "loss": "0.5100",
        "accuracy": "0.8000",
    }
    end = "70/70 [==============================] - 2s 20ms/step - loss: 0.5 - val_loss: -inf"
    progress = read(output, end)
    assert progress.percentage == 100
    assert {metric.name: metric.value for metric in progress.metrics}["val_loss"] == "-inf"


@pytest.mark.parametrize(
    ("line", "step", "percentage", "metrics"),
    [
        ("Epoch 2/4:  25%|██▌       | 75/300 [00:02<00:08, 27.03it/s]", 375, 31, {"epoch": "2"}),
        (
            "Epoch 1 of 2: 100%|##########| 70/70 [01:00<00:00,  1.16s/it, loss=0.5, acc=nan]",
            70,
            50,
            {"epoch": "1", "loss": "0.5", "acc": "nan"},
        ),
        ("Epochs:  30%|███       | 3/10 [00:30<01:10, 10.10s/it, loss=0.5]", None, 30, {"epoch": "3", "loss": "0.5"}),
        (" 30%|███       | 3/10 [00:30<01:10, 10.10s/epoch]", None, 30, {"epoch": "3"}),
        ("  5%|▌         | 50/1000 [00:00<00:03, 300.20step/s]", 50, 5, {"epoch": "1"}),
        ("Training steps:   5%|▌         | 50/1000 [00:00<?, ?it/s]", 50, 5, {"epoch": "1"}),
    ],
)
def test_a_bar_of_tqdm_that_names_what_it_counts(
    line: str, step: int | None, percentage: int, metrics: dict[str, str]
) -> None:
    progress = read(FitOutput(), line)
    assert (progress.step, progress.percentage) == (step, percentage)
    assert {metric.name: metric.value for metric in progress.metrics} == metrics


@pytest.mark.parametrize(
    "line",
    [
        " 30%|███       | 30/100 [00:01<00:03, 27.03it/s]",
        "train.tar.gz:  30%|███       | 30/100 [00:01<00:03, 27.03MB/s]",
        "Validation epoch 1/2:  30%|███       | 30/100 [00:01<00:03, 27.03it/s]",
        "Training:  30%|███       | 30/100 [00:01<00:03, 27.03it/s]",
        "Epoch 1:  30%|███       | 30/100 [00:01<00:03, 27.03it/s]",
        "Epoch 0/5:  30%|███       | 30/100 [00:01<00:03, 27.03it/s]",
    ],
)
def test_a_bar_of_tqdm_that_may_count_anything_is_no_progress(line: str) -> None:
    assert FitOutput().read([line], 1.0, NOW) is None


def test_what_is_evaluated_or_predicted_is_no_training() -> None:
    output = FitOutput()
    assert read(output, bar(30)).percentage == 10, "a fit of one epoch"
    assert read(output, bar(300)).percentage == 100
    assert output.read([bar(10), bar(300)], 2.0, NOW) is None
    output = FitOutput()
    step = "100%|##########| 50/50 [00:01<00:00, 30.00step/s]"
    assert read(output, step).percentage == 100
    assert output.read([step.replace("50/50", "1/50")], 2.0, NOW) is None, "it counts again, so it was an epoch's"
    assert read(output, "Epoch 1/2", bar(300) + "Traceback").percentage == 50


@given(st.lists(st.one_of(st.text(max_size=40), st.from_regex(r"Epoch \d{1,9}/\d{1,9}|\s*\d{1,15}/\d{1,15} (━|-) .*"))))
def test_any_output_gives_a_report_within_bounds_or_none(lines: list[str]) -> None:
    output = FitOutput()
    for after, line in enumerate(lines):
        progress = output.read([line], after, NOW)
        assert progress is None or 0 <= (progress.percentage or 0) <= 100
        assert progress is None or progress.step is None or 0 < progress.step <= (progress.total_steps or 0)
