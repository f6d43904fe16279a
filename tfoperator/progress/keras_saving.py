"""A Keras callback that saves when the end is announced, besides what Keras' own BackupAndRestore does."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfoperator.progress.reporting import keep_reporting
from tfoperator.progress.saving import Announcement, end

if TYPE_CHECKING:
    BackupAndRestore: Any = object
else:
    from keras.callbacks import BackupAndRestore

CHECKPOINT_DIR = "TFOPERATOR_CHECKPOINT_DIR"


class SavingCallback(BackupAndRestore):  # type: ignore[misc] # Keras is no dependency, so its types are not known
    """Keras' BackupAndRestore (3 or later), which saves after the batch that trains when SIGTERM comes, and then exits.

    It restores and saves as that does, with two copies, since a kill can spoil one; `backup_dir` is a folder in
    `TFOPERATOR_CHECKPOINT_DIR` by default. Keras begins an interrupted epoch again, with the weights as saved. Call
    `fit` in the main thread, else NotInMainThread is raised.
    """

    def __init__(self, backup_dir: str | None = None, double_checkpoint: bool = True, **options: Any) -> None:
        """Save there; `options` are those of BackupAndRestore. Raises KeyError where neither names a folder."""
        super().__init__(
            backup_dir or os.path.join(os.environ[CHECKPOINT_DIR], "backup"),
            double_checkpoint=double_checkpoint,
            **options,
        )
        self._end = Announcement()

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Restore, and begin to listen."""
        super().on_train_begin(logs)
        self._end.listen()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Save if it is time, or the end was announced; then end the program."""
        last = self._end.heard
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
        """Remove the backup, as BackupAndRestore does, and listen no more."""
        self._end.stop()
        super().on_train_end(logs)
