"""What kube-apiserver refuses in deployments, as far as one can get it wrong by hand.

Bodies have passed `json_types.check_types` and are defaulted. Every problem names its field by path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfoperator.local.apiserver.errors import FieldProblem, invalid_value, not_supported, required
from tfoperator.local.apiserver.objects.pod_validation import validate_pod

_Dict = dict[str, Any]
_Problems = Iterator[FieldProblem]


def validate_deployment(deployment: _Dict) -> _Problems:
    """The problems of a (defaulted) deployment."""
    spec = deployment["spec"]
    if spec["replicas"] < 0:
        yield invalid_value("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
    if spec["strategy"]["type"] not in ("Recreate", "RollingUpdate"):
        yield not_supported("spec.strategy", spec["strategy"], ("Recreate", "RollingUpdate"))
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels") or {}
    if selector is None:
        yield required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid_value("spec.selector", selector, "empty selector is invalid for deployment")
    elif not (selector.get("matchLabels") or {}).items() <= labels.items():
        yield invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    for problem in validate_pod(spec["template"]):
        yield FieldProblem(f"spec.template.{problem.field}", problem.reason, problem.message)
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy in ("OnFailure", "Never"):
        yield not_supported("spec.template.spec.restartPolicy", policy, ("Always",))


def validate_deployment_update(new: _Dict, old: _Dict) -> _Problems:
    """A deployment keeps its selector: its pods could not be told from others."""
    if new["spec"].get("selector") != old["spec"].get("selector"):
        yield invalid_value("spec.selector", new["spec"].get("selector"), "field is immutable")
