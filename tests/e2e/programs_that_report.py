"""Training programs for the tests of progress: what users of other clients have already, unchanged."""

import textwrap

KUBEFLOW = textwrap.dedent(
    """
    from kubeflow.trainer import update_trainjob_status
    metrics = {"loss": 0.25, "accuracy": 0.9}
    assert update_trainjob_status(progress_percent=42, estimated_remaining_seconds=90, metrics=metrics)
    """
)
"""The function of the Kubeflow SDK."""

TRANSFORMERS = textwrap.dedent(
    """
    from types import SimpleNamespace
    from transformers.integrations.integration_utils import (
        get_available_reporting_integrations, get_reporting_integration_callbacks
    )
    from transformers.trainer_callback import CallbackHandler, TrainerControl, TrainerState

    assert get_available_reporting_integrations() == ["kubeflow"], get_available_reporting_integrations()
    callbacks = [made() for made in get_reporting_integration_callbacks("all")]
    handler = CallbackHandler(callbacks, None, None, None, None)
    arguments, state, control = SimpleNamespace(), TrainerState(max_steps=50), TrainerControl()
    handler.on_train_begin(arguments, state, control)
    for step in range(50):
        handler.on_step_begin(arguments, state, control)
        state.global_step, state.epoch = step + 1, (step + 1) / 50
        handler.on_step_end(arguments, state, control)
        handler.on_log(arguments, state, control, {"loss": 1 / (step + 1), "learning_rate": 5e-5})
    handler.on_train_end(arguments, state, control)
    """
)
"""The callback of transformers, which registers itself, called as its `Trainer` does; without a model, and torch."""

KERAS = textwrap.dedent(
    """
    import os
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    import keras, numpy
    from tfoperator.progress import ProgressCallback

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    inputs, targets = numpy.zeros((64, 4)), numpy.zeros((64, 1))
    model.fit(inputs, targets, batch_size=8, epochs=2, verbose=0, callbacks=[ProgressCallback()])
    """
)
"""Two epochs of eight steps, and our callback."""
