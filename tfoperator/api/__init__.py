"""The TFJob resource: types, names, defaults, validation, and the CRD made from the types.

`tfoperator.api.crd` (the CustomResourceDefinition) and `tfoperator.api.loading` (manifests from files) are imported by
their own names: the operator's process needs neither.
"""

from tfoperator.api.defaults import default
from tfoperator.api.indexes import format_indexes, parse_indexes
from tfoperator.api.problems import Problem, Severity, errors
from tfoperator.api.templates import PodTemplate, decode_template, template_dict
from tfoperator.api.v1.types import (
    TFJOBS,
    CleanPodPolicy,
    ConditionType,
    JobCondition,
    ReplicaSpec,
    ReplicaStatus,
    ReplicaType,
    RestartPolicy,
    RunPolicy,
    SchedulingPolicy,
    SuccessPolicy,
    TensorBoard,
    TensorBoardServiceType,
    TensorBoardStatus,
    TFJob,
    TFJobSpec,
    TFJobStatus,
    decode_tfjob,
)
from tfoperator.api.validation import validate, validate_manifest

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
    "RestartPolicy",
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
    "format_indexes",
    "parse_indexes",
    "template_dict",
    "validate",
    "validate_manifest",
]
