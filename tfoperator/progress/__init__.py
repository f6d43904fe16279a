"""Reports the progress of a training program to the operator that runs it, by the protocol of Kubeflow Trainer.

The package needs only Python's standard library, and does nothing if the job does not request reports. So programs that
use it run unchanged on a laptop, in a notebook and in any cluster. The package never raises network errors, and never
delays a training step: a thread sends the newest values, at most one report in five seconds.

    from tfoperator.progress import ProgressCallback
    model.fit(dataset, epochs=10, callbacks=[ProgressCallback()])

    from tfoperator.progress import Progress
    with Progress(total_steps=10_000) as progress:
        for step in range(10_000):
            loss = train(step)
            progress.update(step + 1, loss=loss)

    from tfoperator.progress import report
    report(step=500, total_steps=10_000, loss=0.23)

Kubernetes sends SIGTERM some time before it kills a program. A training can save its state in this time: with `Saving`
in your own loop, and with `SavingCallback` in Keras. If the chief saves, the parameter servers and workers call
`serve_chief`, which keeps them running until the chief has saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfoperator.progress.reporting import Progress, flush, report
from tfoperator.progress.saving import NotInMainThread, Saving, serve_chief

if TYPE_CHECKING:
    from tfoperator.progress.keras_callbacks import ProgressCallback, SavingCallback

__all__ = [
    "NotInMainThread",
    "Progress",
    "ProgressCallback",
    "Saving",
    "SavingCallback",
    "flush",
    "report",
    "serve_chief",
]


def __getattr__(name: str) -> Any:
    # Imported late: only programs that use Keras need it, and they have mostly imported it already.
    if name in ("ProgressCallback", "SavingCallback"):
        from tfoperator.progress import keras_callbacks

        return getattr(keras_callbacks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
