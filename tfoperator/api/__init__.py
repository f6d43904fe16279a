"""The TFJob API: its types, names and defaults, and one subpackage for each larger part.

`v1` has the types; `validation` finds the problems of a job, `schema` makes the CRD for API servers, `conversion` turns
older versions into v1, `loading` turns a file into manifests. The operator's process needs the first two only, so the
others must be imported by name.
"""

from tfoperator.api.defaults import default
from tfoperator.api.problems import Problem, Severity, errors
from tfoperator.api.templates import PodTemplate, decode_template
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import JobCondition, ReplicaStatus, TensorBoardStatus, TFJobStatus
from tfoperator.api.v1.types import (
    TFJOBS,
    CleanPodPolicy,
    ReplicaSpec,
    ReplicaType,
    RestartMode,
    RestartPolicy,
    RestartScope,
    RunPolicy,
    SchedulingPolicy,
    SuccessPolicy,
    TensorBoard,
    TensorBoardServiceType,
    TFJob,
    TFJobSpec,
    decode_tfjob,
)
from tfoperator.api.validation.job import validate
from tfoperator.api.validation.manifest import validate_manifest

__all__ = [
    "TFJOBS",
    "CleanPodPolicy",
    "ConditionType",
    "JobCondition",
    "PodTemplate",
    "Problem",
    "ReplicaSpec",
    "ReplicaStatus",
    "ReplicaType",
    "RestartMode",
    "RestartPolicy",
    "RestartScope",
    "RunPolicy",
    "SchedulingPolicy",
    "Severity",
    "SuccessPolicy",
    "TFJob",
    "TFJobSpec",
    "TFJobStatus",
    "TensorBoard",
    "TensorBoardServiceType",
    "TensorBoardStatus",
    "decode_template",
    "decode_tfjob",
    "default",
    "errors",
    "validate",
    "validate_manifest",
]
