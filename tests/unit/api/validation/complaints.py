"""The complaints of the validation about a manifest, as text."""

import copy
from typing import Any

from tests.unit.api.samples import TEMPLATE, job_of, tfjob
from tfoperator.api import default, errors, validate, validate_manifest


def complaints(manifest: dict[str, Any]) -> list[str]:
    """Errors of a manifest, which must be the same for the operator, defaulted or not."""
    problems = errors(validate_manifest(manifest))
    job = job_of(manifest)
    assert errors(validate(job)) == problems
    assert len(errors(validate(default(job)))) == len(problems)
    return [str(problem) for problem in problems]


def warnings(manifest: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in validate_manifest(manifest) if problem.severity == "warning"]


def with_template(change: dict[str, Any]) -> dict[str, Any]:
    """A job whose one worker's template is changed: `{"spec.containers.0.image": "x"}`; None removes."""
    template = copy.deepcopy(TEMPLATE)
    for path, value in change.items():
        *parents, last = path.split(".")
        target: Any = template
        for step in parents:
            target = target[int(step)] if isinstance(target, list) else target.setdefault(step, {})
        if value is None:
            del target[last]
        else:
            target[last] = value
    return tfjob({"Worker": {"template": template}})


WORKER = "spec.tfReplicaSpecs[Worker]"


CONTAINERS = f"{WORKER}.template.spec.containers"
