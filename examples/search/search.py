"""Searches the best learning rate and width of a small network: a TFJob per trial, two at a time.

    pip install optuna
    python examples/search/search.py --local

Without `--local` jobs go to the cluster of your kubeconfig, or of `tfoperator local up`. The same command goes on
with a search that was killed: search.db knows the trials, and each job is called after its trial.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import optuna
from optuna.trial import Trial, TrialState

from tfoperator.api import TFJob
from tfoperator.sdk import JobAlreadyExists, JobFailed, JobNotFound, TFJobClient

IMAGE = "tfoperator/digits:latest"  # examples/digits/Dockerfile builds it; not used on a laptop


def train(parameters: dict[str, Any]) -> None:
    """Train on scikit-learn's handwritten digits; runs in the pod, so it imports what it needs."""
    import keras
    from sklearn.datasets import load_digits

    from tfoperator.progress import Progress

    images, labels = load_digits(return_X_y=True)
    keras.utils.set_random_seed(20)
    hidden = keras.layers.Dense(parameters["width"], activation="relu")
    model = keras.Sequential([keras.Input((64,)), hidden, keras.layers.Dense(10, activation="softmax")])
    optimizer = keras.optimizers.SGD(parameters["learning_rate"])
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    with Progress(total_steps=20) as progress:
        for epoch in range(20):
            model.fit(images[:1400] / 16, labels[:1400], batch_size=16, verbose=0)
            _, accuracy = model.evaluate(images[1400:] / 16, labels[1400:], verbose=0)
            progress.update(epoch + 1, accuracy=accuracy)


def reported(job: TFJob) -> tuple[int, float] | None:
    """The epoch and the accuracy that the job has reported last, if any."""
    progress = job.status.progress
    accuracies = [float(metric.value) for metric in progress.metrics if metric.name == "accuracy"] if progress else []
    return (progress.step or 0, accuracies[0]) if progress and accuracies else None


def run(client: TFJobClient, study: optuna.Study, trial: Trial) -> None:
    """Run a trial's job to its end, or follow the one that a search before this one has created."""
    name = f"{study.study_name}-{trial.number}"
    rate, width = trial.suggest_float("learning_rate", 1e-4, 1, log=True), trial.suggest_int("width", 2, 64, log=True)

    def look(job: TFJob) -> None:
        now, known = reported(job), study.trials[trial.number].intermediate_values
        if now and now[0] not in known and not client.is_job_succeeded(job=job):
            trial.report(now[1], now[0])
            if trial.should_prune():
                raise optuna.TrialPruned

    with suppress(JobAlreadyExists):
        parameters = {"learning_rate": rate, "width": width}
        client.create_job(name=name, train_func=train, parameters=parameters, base_image=IMAGE)
    try:
        last = reported(client.wait_for_job_conditions(name, wait_timeout=None, callback=look))
        assert last, f"{name} has reported nothing: does the operator take reports (docs/progress.md)?"
        study.tell(trial, last[1])
    except optuna.TrialPruned:
        study.tell(trial, state=TrialState.PRUNED)  # before its job goes: a trial without a job would begin again
        client.delete_job(name)
    except JobFailed as failure:
        study.tell(trial, state=TrialState.FAIL)
        print(failure)
    print(f"trial {trial.number}: {study.trials[trial.number].state.name}", flush=True)


def main() -> None:
    """Run what is left of the search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--local", action="store_true", help="on this machine, without `tfoperator local up`")
    parser.add_argument("--trials", type=int, default=12)
    options = parser.parse_args()
    # It compares what trials had reached at the first report after 2, 6 and 18 epochs: not every epoch is reported.
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=3)
    study = optuna.create_study(
        storage="sqlite:///search.db", study_name="search", direction="maximize", pruner=pruner, load_if_exists=True
    )
    begun = [Trial(study, trial._trial_id) for trial in study.get_trials(states=[TrialState.RUNNING])]
    new = [None] * (options.trials - len(study.trials))
    with TFJobClient.local() if options.local else TFJobClient() as client, ThreadPoolExecutor(2) as two:
        for trial in study.get_trials(states=[TrialState.PRUNED]):
            with suppress(JobNotFound):
                client.delete_job(f"search-{trial.number}")
        list(two.map(lambda trial: run(client, study, trial or study.ask()), [*begun, *new]))
    print(f"best: trial {study.best_trial.number}, accuracy {study.best_value:.3f}, {study.best_params}")


if __name__ == "__main__":
    main()
