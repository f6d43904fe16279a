"""Writes the parameters, curves and result of each job of an ended run to MLflow, as one MLflow run for each job.

The module uses MLflow's own client.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.types import TFJOBS
from tfoperator.base.urls import shown_url, with_shown_urls
from tfoperator.local.run.records import RunRecords
from tfoperator.local.run.results import JobResult, RunResult

EXPERIMENT = "tfoperator"
"""The MLflow experiment to which the runs are written, unless the variable MLFLOW_EXPERIMENT_NAME names another
experiment.
"""

_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # MLflow's defaults are 7 retries of 120 s
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # MLflow must not print into the command's output
}
_POINTS_AT_ONCE, _PARAMETERS_AT_ONCE = 1000, 100  # what a server of MLflow takes in one request
_STATUS: dict[str, str] = {ConditionType.SUCCEEDED: "FINISHED", ConditionType.FAILED: "FAILED"}  # others: KILLED
_MAX_VALUE = 6000  # characters of a parameter


class TrackingError(Exception):
    """MLflow is not installed, or its server or folder can't be used."""


class MlflowTracking:
    """Writes to the server or folder in MLFLOW_TRACKING_URI, or to MLflow's own default. Not thread-safe.

    The MLflow runs belong to the MLflow experiment that MLFLOW_EXPERIMENT_NAME names, by default `EXPERIMENT`.
    """

    def __init__(self) -> None:
        """Find the MLflow experiment, or create it. Raises TrackingError if this fails.

        Create this object before a run begins. So a wrong setting of MLflow is reported at once, and not after hours of
        training.
        """
        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        try:
            import mlflow
        except ImportError as error:
            raise TrackingError(f"MLflow can't be imported ({error}): pip install 'tfoperator[mlflow]'") from error
        try:
            self.place = shown_url(str(mlflow.get_tracking_uri()))
            self._client: Any = mlflow.MlflowClient()
            self.experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
            experiment = self._client.get_experiment_by_name(self.experiment)
            self._id = (
                self._client.create_experiment(self.experiment) if experiment is None else experiment.experiment_id
            )
        except (mlflow.MlflowException, OSError) as error:
            place = shown_url(str(mlflow.get_tracking_uri()))
            raise TrackingError(f"MLflow's {place}: {_first_line(error)}") from error

    def write(self, result: RunResult, records: RunRecords) -> None:
        """Write an MLflow run for each job.

        Raises TrackingError if MLflow or its server fails. Data that was written before the error stays.
        """
        import mlflow

        jobs = [obj["metadata"] for obj in records.objects if obj["kind"] == TFJOBS.kind]
        uids = {(job["namespace"], job["name"]): job["uid"] for job in jobs}
        try:
            for job in result.jobs:
                self._write_job(result, job, records.curves.get(uids[job.namespace, job.name], {}))
        except (mlflow.MlflowException, OSError) as error:
            raise TrackingError(f"MLflow's {self.place}: {_first_line(error)}") from error

    def _write_job(self, result: RunResult, job: JobResult, curves: Mapping[str, Sequence[Any]]) -> None:
        from mlflow.entities import Metric, Param, RunTag

        began = int(result.began.timestamp() * 1000)
        run = self._client.create_run(self._id, began, run_name=job.name).info.run_id
        facts = {"namespace": job.namespace, "directory": result.run_directory, "reason": job.reason}
        tags = [RunTag(f"tfoperator.{name}", value) for name, value in facts.items()]
        if job.message:
            tags.append(RunTag("mlflow.note.content", job.message))
        params = [Param(key_of(name), value[:_MAX_VALUE]) for name, value in job.parameters.items()]
        self._client.log_batch(run, tags=tags)
        for first in range(0, len(params), _PARAMETERS_AT_ONCE):
            self._client.log_batch(run, params=params[first : first + _PARAMETERS_AT_ONCE])
        points = [
            Metric(key_of(name), point.value, int(point.time * 1000), number if point.step < 0 else point.step)
            for name, curve in curves.items()
            for number, point in enumerate(curve)
        ]
        for first in range(0, len(points), _POINTS_AT_ONCE):
            self._client.log_batch(run, metrics=points[first : first + _POINTS_AT_ONCE])
        ended = began + int(result.seconds * 1000)
        self._client.set_terminated(run, _STATUS.get(job.condition, "KILLED"), ended)


def key_of(name: str) -> str:
    """Return a name in a form that MLflow accepts for a parameter or a metric: MLflow refuses some characters, and
    paths with `..`.
    """
    allowed = re.sub(r"[^\w. /-]", "_", name)
    if all(part.strip(".") for part in allowed.split("/")):
        return allowed
    return "_" + allowed.replace("/", "_")


def _first_line(error: BaseException) -> str:
    return with_shown_urls(str(error).partition("\n")[0][:500])
