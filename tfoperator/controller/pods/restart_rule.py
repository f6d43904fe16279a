"""The rule by which a kubelet itself carries out the restart policy ExitCode (Kubernetes 1.35)."""

from __future__ import annotations

from typing import Any

from tfoperator.api.names import ANNOTATION_RESTART_MODE, RestartMode
from tfoperator.api.replica_pods import FIRST_RETRYABLE_EXIT_CODE
from tfoperator.api.v1.types import RestartPolicy, TFJob
from tfoperator.controller.pods.template import Template

_PERMANENT = {"operator": "NotIn", "values": list(range(FIRST_RETRYABLE_EXIT_CODE))}
_RULES: list[dict[str, Any]] = [{"action": "Restart", "exitCodes": _PERMANENT}]


def add_restart_rule(template: Template, job: TFJob, policy: RestartPolicy) -> None:
    """Have the training container started again in its pod after each retryable exit code, and after no other.

    Pods of other policies need no rule. Where no restart is allowed at all there is none, for a kubelet would make one
    before it is told not to.
    """
    if policy is not RestartPolicy.EXIT_CODE or job.spec.policy.backoff_limit == 0:
        return
    template.change_container(restartPolicy="Never", restartPolicyRules=_RULES)
    template.annotations = template.annotations | {ANNOTATION_RESTART_MODE: str(RestartMode.IN_PLACE)}
