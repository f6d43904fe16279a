"""`SavingCallback` with a real Keras: a `fit` whose end is announced goes on where it was."""

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.eventually import eventually

pytestmark = pytest.mark.timeout(600)  # the sum of what it waits for at most

PROGRAM = textwrap.dedent(
    """
    import sys, time
    import keras, numpy
    from tfoperator.progress import SavingCallback

    class Say(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            print(f"batch {int(self.model.optimizer.iterations)} begins", flush=True)
            time.sleep(0.02)

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    x = numpy.ones((50, 4))
    model.fit(x, x[:, :1], batch_size=1, epochs=int(sys.argv[1]), verbose=0, callbacks=[Say(), SavingCallback()])
    print("over", int(model.optimizer.iterations), flush=True)
    """
)


def batches(log: Path) -> list[int]:
    """Return the batches whose line is whole: the program may be writing the last line."""
    return [int(number) for number in re.findall(r"^batch (\d+) begins$", log.read_text(), re.MULTILINE)]


def test_a_fit_whose_end_is_announced_saves_the_batch_and_goes_on_after_it(tmp_path: Path) -> None:
    variables = {**os.environ, "TFOPERATOR_CHECKPOINT_DIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", PROGRAM]
    with (tmp_path / "first").open("wb") as log:
        first = subprocess.Popen([*command, "1000"], env=variables, stdout=log, stderr=log)
    try:
        eventually(lambda: len(batches(tmp_path / "first")) > 120, within=240, every=0.05, what="two epochs are over")
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 143, (tmp_path / "first").read_text()
    finally:
        first.kill()
        first.wait()
    done = batches(tmp_path / "first")[-1] + 1  # the batch during which it was announced is trained to its end

    again = subprocess.run([*command, "5"], env=variables, capture_output=True, text=True, timeout=240, check=False)
    assert again.returncode == 0, again.stderr
    (tmp_path / "second").write_text(again.stdout)
    assert batches(tmp_path / "second")[0] == done
    epochs = 5 - done // 50  # Keras begins the epoch again
    assert again.stdout.splitlines()[-1] == f"over {done + 50 * epochs}"
    assert not (tmp_path / "backup").exists()  # Keras removes it after the last epoch
