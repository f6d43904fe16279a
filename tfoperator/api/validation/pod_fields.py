"""Checks a handwritten pod template: the types of its members, and the rules of API servers and kubelets. Pure.

The CRD has the fields and their types. So an API server refuses a job with a member of a wrong type, for example
`command: python train.py` (a text instead of a list). But an API server accepts a job with a fault that only
`api.pods.rules` finds, and later refuses the pods of this job. So `validate` finds these faults, too, and also the
faults for which a kubelet refuses a pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tfoperator.api.fields.problems import Problem, shown
from tfoperator.api.pods.images import image_problem
from tfoperator.api.pods.rules import Fault, Kind, pod_faults
from tfoperator.api.pods.types import TEMPLATE, wrong_types
from tfoperator.api.validation.checks import warning
from tfoperator.kube.views.pod_spec import GPU

_CPU_IMAGE = re.compile(r"(?:(?:index\.)?docker\.io/)?tensorflow/tensorflow(?::(?!\S*gpu)[\w.-]+)?")
NO_CUDA = "has no CUDA, so the program can't use its GPUs: choose a tag that ends in -gpu"
_MOUNTED = re.compile(r"\.volumeMounts\[\d+\]\.name")
_OF_OPERATOR = "tfoperator-"


def shape_problems(template: Mapping[str, Any], path: str) -> list[Problem]:
    """Return the problems of a pod template (plain data at `path`): API servers or kubelets would refuse its pods."""
    problems = list(wrong_types(template, TEMPLATE, path))
    return problems or [*_rule_problems(template, path), *_image_problems(template, path)]


def _rule_problems(template: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for fault in pod_faults(template, path):
        if fault.kind is Kind.NOT_FOUND and _MOUNTED.search(fault.field):
            # Only a warning: settings of accelerators or webhooks may add the volume.
            if fault.value and not str(fault.value).startswith(_OF_OPERATOR):
                yield warning(
                    fault.field, f"{shown(fault.value)} is not the name of a volume in the template's volumes"
                )
        else:
            yield Problem(fault.field, _message(fault))


def _message(fault: Fault) -> str:
    match fault.kind:
        case Kind.REQUIRED:
            return f"is required: {fault.detail}" if fault.detail else "is required"
        case Kind.NOT_SUPPORTED:
            options = ", ".join(option or "empty" for option in fault.options)
            return f"must be one of {options}, but is {shown(fault.value)}"
        case Kind.DUPLICATE:
            return f"{shown(fault.value)} is there twice"
        case Kind.NOT_FOUND:
            return f"{shown(fault.value)} is not there: {fault.detail}"
    if fault.kind is Kind.INVALID and fault.value not in (None, "", "resource"):
        return f"{fault.detail}, but is {shown(fault.value)}"
    return fault.detail


def _image_problems(template: Mapping[str, Any], path: str) -> Iterator[Problem]:
    spec = template.get("spec") or {}
    for group in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(group) or ()):
            image, field = str((container or {}).get("image") or ""), f"{path}.spec.{group}[{position}].image"
            if image and image == image.strip() and (problem := image_problem(image)):
                yield Problem(field, f"{problem}; no kubelet can start {shown(image)} (InvalidImageName)")
            if GPU in (((container or {}).get("resources") or {}).get("limits") or {}) and is_cpu_image(image):
                yield warning(field, f"{image} {NO_CUDA}")


def is_cpu_image(image: str) -> bool:
    """Return whether this image is from TensorFlow itself and does not contain CUDA."""
    return _CPU_IMAGE.fullmatch(image) is not None
