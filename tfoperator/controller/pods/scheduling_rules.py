"""Which priority classes and queues a job's PodGroup may name: what an administrator allows.

The operator makes PodGroups with its own rights. A quota of pods by priority class, or an admission policy on pods,
never sees what they name, so that the operator itself has to ask whether the job's namespace may have it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tfoperator.api.problems import shown
from tfoperator.api.v1.types import SchedulingPolicy
from tfoperator.controller.pods.gang import GangScheduler, PodGroupSpec

ANY = "*"
"""In a list of names: every name, but for a system class."""

_SYSTEM = "system-"
"""How Kubernetes' own priority classes begin, whose pods push out everything else."""

_POLICY = "spec.runPolicy.schedulingPolicy"
_SHOWN = 10


class AllowedNames(msgspec.Struct, frozen=True, rename="camel"):
    """Names that jobs may use. A namespace in `namespaces` has that list of its own, instead of `default`."""

    default: tuple[str, ...]
    namespaces: dict[str, tuple[str, ...]] = {}

    def of(self, namespace: str) -> tuple[str, ...]:
        """The names that jobs of a namespace may use."""
        return self.namespaces.get(namespace, self.default)


class SchedulingRules(msgspec.Struct, frozen=True, rename="camel"):
    """What PodGroups may name: by default every queue, and every priority class that is not the system's."""

    priority_classes: AllowedNames = AllowedNames((ANY,))
    queues: AllowedNames = AllowedNames((ANY,))

    def problems(
        self, gang: GangScheduler, namespace: str, policy: SchedulingPolicy, current: PodGroupSpec | None
    ) -> Iterator[str]:
        """What of the policy a PodGroup may not be given; `current` is what the job's PodGroup asks for already.

        What it has already, it keeps: it was allowed when the job started, or the operator did not ask yet.
        """
        if not gang.has_classes:
            return
        has = current or PodGroupSpec()
        wanted = gang.spec(policy, 0, {})
        name, allowed = wanted.priority_class_name, self.priority_classes.of(namespace)
        if name != has.priority_class_name and not _allows(allowed, name, but=_SYSTEM):
            yield _refusal("priorityClass", name, namespace, allowed, but=_SYSTEM)
        name, allowed = wanted.queue, self.queues.of(namespace)
        if name != has.queue and not _allows(allowed, name):
            yield _refusal("queue", name, namespace, allowed)


def _allows(allowed: tuple[str, ...], name: str, *, but: str = "") -> bool:
    """Whether a name is listed, or any is that doesn't begin with `but`. To name nothing is always allowed."""
    return not name or name in allowed or (ANY in allowed and not (but and name.startswith(but)))


def _refusal(field: str, name: str, namespace: str, allowed: tuple[str, ...], *, but: str = "") -> str:
    names = [f"any but {but}*" if one == ANY and but else one for one in allowed]
    listed = ", ".join(names[:_SHOWN]) + (" and more" if len(names) > _SHOWN else "")
    return f"{_POLICY}.{field}: {shown(name)} is not allowed in namespace {namespace}; allowed: {listed or 'none'}"
