"""Keras callbacks: `ProgressCallback` reports the progress of `fit`, `SavingCallback` also saves on SIGTERM."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfoperator.progress.reporting import flush, keep_reporting, report
from tfoperator.progress.saving import Announcement, end, jax_processes

if TYPE_CHECKING:
    BackupAndRestore: Any = object
    Callback: Any = object
elif "keras" not in sys.modules and "tensorflow" in sys.modules:
    from tensorflow.keras.callbacks import BackupAndRestore, Callback
else:
    from keras.callbacks import BackupAndRestore, Callback

CHECKPOINT_DIR = "TFOPERATOR_CHECKPOINT_DIR"


class ProgressCallback(Callback):  # type: ignore[misc] # Keras is no dependency, so its types are not known
    """Reports the progress of `fit(callbacks=[ProgressCallback()])`. The program needs no other call.

    Steps are batches, counted over all epochs. With a generator, the number of steps may be unknown until the
    first epoch has ended. Until then, the percentage is computed from epochs. If `fit` begins at an `initial_epoch`,
    the count continues from there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._began = 0.0
        self._first = 0  # the step at which this fit began, more than 0 with `initial_epoch`
        self._step = 0
        self._epoch = 0
        self._metrics: dict[str, object] = {}

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Reset the count of steps."""
        self._began = time.monotonic()
        self._metrics = dict(logs or {})
        self._first = self._step = -1

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Set the step to the beginning of this epoch.

        At the first epoch, also report the progress: 0 %, or the progress at `initial_epoch`.
        """
        del logs
        self._epoch = epoch
        begins = epoch * (self._steps_per_epoch() or 0)
        if self._first < 0:
            self._first = begins
            self._step = begins
            self._send(at_once=True)
        self._step = max(self._step, begins)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Count and report one step, or several steps if Keras' `steps_per_execution` is more than 1."""
        self._step = max(self._step + 1, self._epoch * (self._steps_per_epoch() or 0) + batch + 1)
        self._metrics.update(logs or {})
        self._send()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Report the metrics of the epoch, including the metrics of the validation."""
        self._epoch = epoch + 1
        self._metrics.update(logs or {})
        self._send()

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Report 100 %, even if the training stopped early."""
        self._metrics.update(logs or {})
        self._send(percentage=100.0, remaining=0.0, at_once=True)
        flush()

    def _steps_per_epoch(self) -> int | None:
        steps = (self.params or {}).get("steps")
        return int(steps) if steps else None

    def _total(self) -> int | None:
        per_epoch, epochs = self._steps_per_epoch(), (self.params or {}).get("epochs")
        return per_epoch * int(epochs) if per_epoch and epochs else None

    def _send(self, *, percentage: float | None = None, remaining: float | None = None, at_once: bool = False) -> None:
        total, epochs = self._total(), int((self.params or {}).get("epochs") or 0)
        done = self._step - self._first
        if total and remaining is None and done > 0:
            remaining = (time.monotonic() - self._began) / done * max(total - self._step, 0)
        if percentage is None and not total and epochs:
            percentage = 100 * self._epoch / epochs
        metrics = {name: value for name, value in self._metrics.items() if isinstance(name, str)}
        # Metrics with the name of a parameter of `report` are left out, because they can't be passed as keywords.
        names = {"step", "total_steps", "percentage", "remaining_seconds", "at_once", "epoch"}
        report(
            step=self._step,
            total_steps=total,
            percentage=percentage,
            remaining_seconds=remaining,
            at_once=at_once,
            epoch=min(self._epoch + 1, epochs) if epochs else self._epoch + 1,
            **{name: value for name, value in metrics.items() if name not in names},
        )


class SavingCallback(BackupAndRestore):  # type: ignore[misc] # Keras is no dependency, so its types are not known
    """Extends BackupAndRestore of Keras 3 or later.

    On SIGTERM, the callback also saves after the current batch, and then ends the program. It restores and saves as
    BackupAndRestore does, but keeps two copies, because a kill during a save can leave an incomplete copy. The default
    of `backup_dir` is a folder in `TFOPERATOR_CHECKPOINT_DIR`. Keras begins an interrupted epoch again, with the saved
    weights. Call `fit` in the main thread. Otherwise NotInMainThread is raised.

    With the JAX backend on several processes, all processes save, because Keras saves by operations in which all
    processes take part. Only the files of process 0 are kept. If one process gets SIGTERM, all processes save and exit
    after the same batch.
    """

    def __init__(self, backup_dir: str | None = None, double_checkpoint: bool = True, **options: Any) -> None:
        """Save in `backup_dir`.

        `options` are passed to BackupAndRestore. Raises KeyError if neither `backup_dir` nor the environment variable
        TFOPERATOR_CHECKPOINT_DIR names a folder.
        """
        super().__init__(
            backup_dir or os.path.join(os.environ[CHECKPOINT_DIR], "backup"),
            double_checkpoint=double_checkpoint,
            **options,
        )
        self._end = Announcement()
        self._batches = 0  # the number of batches since this fit began
        self._thrown_away: tempfile.TemporaryDirectory[str] | None = None

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Restore the saved state, and begin to handle SIGTERM."""
        super().on_train_begin(logs)
        self._batches = 0
        if jax_processes() > 1 and sys.modules["jax"].process_index() > 0:
            self._thrown_away = tempfile.TemporaryDirectory(prefix="tfoperator-backup-")
            model, params = self.model, self.params  # Keras forgets them when a callback is initialized again
            super().__init__(self._thrown_away.name, save_freq=self.save_freq, delete_checkpoint=False)
            self.set_model(model)
            self.set_params(params)
        self._end.listen()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Save if `save_freq` requires it, or if the program got SIGTERM. After SIGTERM, end the program, too."""
        self._batches += 1
        last = self._end.ends_after(self._batches)
        if last:
            self.save_freq = 1
        super().on_train_batch_end(batch, logs)
        if last:
            end(int(self.model.optimizer.iterations))

    def _save_model(self) -> None:
        began = time.monotonic()
        super()._save_model()
        steps = int(self.model.optimizer.iterations)
        keep_reporting(saved_step=steps, save_seconds=time.monotonic() - began)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Remove the backup, as BackupAndRestore does, and restore the earlier handler of SIGTERM."""
        self._end.stop()
        super().on_train_end(logs)
        if self._thrown_away is not None:
            self._thrown_away.cleanup()
