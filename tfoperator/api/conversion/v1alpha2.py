"""Converts v1alpha2, the version of the design document, to v1 and back without loss.

The versions differ in names: v1alpha2 has `status.tfReplicaStatuses` instead of `replicaStatuses`, and other names of
replica types (`replica_names`). In v1alpha2 an unset restart policy means Always; in v1 it means Never. So the
conversion writes the policy explicitly. v1alpha2 has two members of v1's run policy directly in the spec, as in the
Go operator's releases of v1alpha2: `cleanPodPolicy` and `ttlSecondsAfterFinishing`.

An annotation preserves all other members of the spec (`preserved`), with one exception: `network` and the immutable
members of the run policy are fields in both versions, since an API server's rules can't check an annotation. The
conversion does not preserve the status in an annotation. Only operators write the status, and a client that replaces a
job without its annotations would remove the counts of restarts. So the conversion passes on all status members, also
those that v1alpha2 does not have.

Any client can write an annotation. So if a version has a field for a member, the conversion never takes the member from
the annotation. `checked_v1alpha2_to_v1` refuses members that v1's rules would have refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tfoperator.api.conversion.preserved import (
    V1_ONLY,
    V1ALPHA2_ONLY,
    Preserved,
    check_complete,
    check_restored,
    overlaid,
    preserve,
    split_policy,
    take,
)
from tfoperator.api.conversion.replica_names import LOCAL, rename, to_remember, v1_name, v1alpha2_name
from tfoperator.api.conversion.result import Conversion, Note, pod_spec
from tfoperator.api.v1.choices import ReplicaType, RestartPolicy
from tfoperator.api.v1.types import TFJOBS

V1ALPHA2 = f"{TFJOBS.group}/v1alpha2"

_Dict = dict[str, Any]

_REPLICAS = "tfReplicaSpecs"
_POLICY = "runPolicy"
_REPLICA_MEMBERS = ("replicas", "restartPolicy", "template")  # in the order in which people write them
_STATUSES_V1, _STATUSES_V1ALPHA2 = "replicaStatuses", "tfReplicaStatuses"
_RUN_POLICY = {"cleanPodPolicy": "cleanPodPolicy", "ttlSecondsAfterFinishing": "ttlSecondsAfterFinished"}
"""Maps members of v1alpha2's spec to their names in v1's run policy."""
_NETWORK = "network"


class _Direction(msgspec.Struct, frozen=True):
    """The values in which the conversion to v1 and the conversion to v1alpha2 differ."""

    source: str
    target: str
    forth: Callable[[str], str]
    back: Callable[[str], str]
    target_annotation: str  # annotation on the target with the fields that only the source has
    source_annotation: str  # annotation on the source with the fields that only the target has
    statuses: Mapping[str, str]


def _both_ways(name: str, counterpart: str) -> Mapping[str, str]:
    # Both directions, so that a member with the wrong version's name is converted, too.
    return {name: counterpart, counterpart: name}


_STATUSES = _both_ways(_STATUSES_V1, _STATUSES_V1ALPHA2)
_TO_V1 = _Direction(V1ALPHA2, TFJOBS.api_version, v1_name, v1alpha2_name, V1ALPHA2_ONLY, V1_ONLY, _STATUSES)
_TO_V1ALPHA2 = _Direction(TFJOBS.api_version, V1ALPHA2, v1alpha2_name, v1_name, V1_ONLY, V1ALPHA2_ONLY, _STATUSES)


def v1alpha2_to_v1(obj: Mapping[str, Any]) -> Conversion:
    """Return a v1alpha2 job as v1.

    Any input is accepted: the function passes on values of a wrong type, and validation reports them.
    """
    return _Converter(_TO_V1).convert(obj, _spec_to_v1, _policy_in_v1alpha2)


def v1_to_v1alpha2(obj: Mapping[str, Any]) -> Conversion:
    """Return a v1 job as v1alpha2. Any input is accepted, as in `v1alpha2_to_v1`."""
    return _Converter(_TO_V1ALPHA2).convert(obj, _spec_to_v1alpha2, _policy_in_v1)


def checked_v1alpha2_to_v1(obj: Mapping[str, Any]) -> _Dict:
    """Return a v1alpha2 job as v1, for a server that checked it as v1alpha2 and stores it without another check.

    Raises ConversionError if v1 would not accept the members that the annotation restores, or if fields of v1 are lost
    because they did not fit into the annotation.
    """
    check_complete(obj)
    converted = v1alpha2_to_v1(obj).obj
    _, earlier = take(obj, V1_ONLY)
    check_restored(converted, [name for name in earlier.spec if name != _REPLICAS])
    return converted


def _spec_to_v1(spec: _Dict, earlier: Preserved) -> tuple[_Dict, _Dict, dict[str, str]]:
    """Return v1's members of the spec, the members that only v1alpha2 has, and the origins of moved members.

    The origins map the new path of a member to its path in `spec`. The replicas are left out. `earlier` has the members
    that the annotation preserved.
    """
    moved = {new: spec[old] for old, new in _RUN_POLICY.items() if old in spec}
    restored = {name: value for name, value in earlier.spec.items() if name not in (_REPLICAS, _NETWORK)}
    carried = restored | _network(spec)
    own, others = split_policy(spec.get(_POLICY))
    if _POLICY in carried:
        carried[_POLICY] = split_policy(carried[_POLICY], _RUN_POLICY.values())[1]
    if moved or own:
        carried[_POLICY] = overlaid(carried.get(_POLICY), own | moved)
    fields = (_REPLICAS, _POLICY, _NETWORK, *_RUN_POLICY)
    preserved = {name: value for name, value in spec.items() if name not in fields}
    if _POLICY in spec and (others or not own):
        preserved[_POLICY] = others
    return (
        carried,
        preserved,
        {f"spec.{_POLICY}.{new}": f"spec.{old}" for old, new in _RUN_POLICY.items() if old in spec},
    )


def _spec_to_v1alpha2(spec: _Dict, earlier: Preserved) -> tuple[_Dict, _Dict, dict[str, str]]:
    """Return v1alpha2's members of the spec, the members that only v1 has, and the origins of moved members.

    The origins map the new path of a member to its path in `spec`. The replicas are left out. `earlier` has the members
    that the annotation preserved.
    """
    policy = spec.get(_POLICY)
    own, _ = split_policy(policy)
    moved = {old: policy[new] for old, new in _RUN_POLICY.items() if isinstance(policy, dict) and new in policy}
    rest = split_policy(policy, _RUN_POLICY.values())[1]
    preserved = {name: value for name, value in spec.items() if name not in (_REPLICAS, _POLICY, _NETWORK)}
    if _POLICY in spec and (rest or not (moved or own)):
        preserved[_POLICY] = rest
    fields = (_REPLICAS, _NETWORK, *_RUN_POLICY)
    carried = {name: value for name, value in earlier.spec.items() if name not in fields} | _network(spec)
    if _POLICY in carried:
        carried[_POLICY] = split_policy(carried[_POLICY])[1]
    if own:
        carried[_POLICY] = overlaid(carried.get(_POLICY), own)
    return carried | moved, preserved, {f"spec.{old}": f"spec.{_POLICY}.{_RUN_POLICY[old]}" for old in moved}


def _network(spec: _Dict) -> _Dict:
    return {_NETWORK: spec[_NETWORK]} if _NETWORK in spec else {}


def _policy_in_v1(_replica: _Dict) -> tuple[str, str]:
    return RestartPolicy.NEVER.value, f"is not set, and the default of v1 is {RestartPolicy.NEVER}"


def _policy_in_v1alpha2(replica: _Dict) -> tuple[str, str]:
    """Return the policy that an unset restart policy means (the template's or the default), and the reason in words."""
    policy = _policy_of_template(replica)
    if isinstance(policy, str) and policy in set(RestartPolicy):
        return policy, f"is not set, so the restartPolicy of the template is used: {policy}"
    default = RestartPolicy.ALWAYS.value
    return (
        default,
        f"is not set, and the default of v1alpha2 is {default}, which restarts a replica even after exit code 0",
    )


def _policy_of_template(replica: _Dict) -> Any:
    pod = pod_spec(replica.get("template"))
    return pod.get("restartPolicy") if pod is not None else None


class _Converter:
    """The state of one conversion while it runs."""

    def __init__(self, direction: _Direction) -> None:
        self._way = direction
        self._notes: list[Note] = []
        self._origins: dict[str, str] = {}
        self._used: set[str] = set()

    def convert(
        self,
        obj: Mapping[str, Any],
        convert_spec: Callable[[_Dict, Preserved], tuple[_Dict, _Dict, dict[str, str]]],
        policy: Callable[[_Dict], tuple[str, str]],
    ) -> Conversion:
        result, earlier = take(obj, self._way.source_annotation)
        # This annotation is from an earlier conversion: the object itself has this information now.
        result, _ = take(result, self._way.target_annotation)
        result["apiVersion"] = self._way.target
        spec_names: dict[str, str] = {}
        members: _Dict = {}
        replicas: dict[str, _Dict] = {}
        spec = result.get("spec")
        if isinstance(spec, dict):
            carried, members, moved = convert_spec(spec, earlier)
            self._origins |= moved
            if _REPLICAS in spec:
                carried[_REPLICAS], replicas, spec_names = self._replicas(spec[_REPLICAS], earlier, policy)
            result["spec"] = carried
        status_names: dict[str, str] = {}
        if isinstance(result.get("status"), dict):
            result["status"], status_names = self._status(result["status"], earlier)
        for name in members:
            self._lost(f"spec.{name}")
        preserved = Preserved(spec=members, replicas=replicas, spec_names=spec_names, status_names=status_names)
        result = preserve(result, self._way.target_annotation, preserved)
        return Conversion(result, tuple(self._notes), self._origins, frozenset(self._used))

    def _replicas(
        self, specs: Any, earlier: Preserved, policy: Callable[[_Dict], tuple[str, str]]
    ) -> tuple[Any, dict[str, _Dict], dict[str, str]]:
        """Return the replica specs, the members that only the source version has, and the spellings to preserve.

        The spellings map the target's names of replica types to the source's names, as `Preserved.spec_names` does.
        `policy` returns the restart policy that an unset policy of a replica means, and the reason in words.
        """
        if not isinstance(specs, dict):
            return specs, {}, {}
        names = rename(specs, self._way.forth, self._way.back, earlier.spec_names)
        self._note_names(names, specs)
        result: _Dict = {}
        preserved: dict[str, _Dict] = {}
        for name, replica in specs.items():
            path, new = f"spec.{_REPLICAS}[{name}]", names[name]
            if new != name:
                self._origins[f"spec.{_REPLICAS}[{new}]"] = path
            if not isinstance(replica, dict):
                result[new] = replica
                continue
            if not replica.get("restartPolicy"):
                chosen, why = policy(replica)
                replica = replica | {"restartPolicy": chosen}
                self._notes.append(Note(f"{path}.restartPolicy", why))
                if _policy_of_template(replica) == chosen:
                    self._used.add(f"{path}.template.spec.restartPolicy")
            others = {member: value for member, value in replica.items() if member not in _REPLICA_MEMBERS}
            if others:
                preserved[name] = others
                for member in others:
                    self._lost(f"{path}.{member}")
            own = {member: replica[member] for member in _REPLICA_MEMBERS if member in replica}
            restored = earlier.replicas.get(new, {})
            result[new] = {m: value for m, value in restored.items() if m not in _REPLICA_MEMBERS} | own
        return result, preserved, to_remember(names, self._way.forth, self._way.back)

    def _status(self, status: _Dict, earlier: Preserved) -> tuple[_Dict, dict[str, str]]:
        result = {self._way.statuses.get(name, name): value for name, value in status.items()}
        statuses = _STATUSES_V1 if self._way is _TO_V1 else _STATUSES_V1ALPHA2
        replicas = result.get(statuses)
        if not isinstance(replicas, dict):
            return result, {}
        names = rename(replicas, self._way.forth, self._way.back, earlier.status_names)
        result[statuses] = {names[name]: value for name, value in replicas.items()}
        return result, to_remember(names, self._way.forth, self._way.back)

    def _note_names(self, names: Mapping[str, str], specs: _Dict) -> None:
        for name, new in names.items():
            path = f"spec.{_REPLICAS}[{name}]"
            if new == name and self._way.forth(name) != name and len(names) > 1:
                others = " and ".join(other for other in names if other != name)
                message = f"keeps its name, and does not become {self._way.forth(name)}: the job also has {others}"
                self._notes.append(Note(path, message, lost=True))
            elif self._way is _TO_V1 and name.lower() == LOCAL.lower():
                self._notes.append(Note(path, f"becomes {new}, which v1 uses for training on a single replica"))
                if len(names) > 1 or _count(specs[name]) not in (None, 0, 1):
                    message = (
                        "gets a TF_CONFIG with all replicas of the job: in v1 every replica type is part of the cluster"
                    )
                    self._notes.append(Note(path, message, lost=True))
            elif new != name and new != ReplicaType.EVALUATOR and name != ReplicaType.EVALUATOR:
                self._notes.append(Note(path, f"becomes {new}"))

    def _lost(self, field: str) -> None:
        way = self._way
        message = (
            f"{_short(way.target)} has no such field, so the value is kept in the annotation {way.target_annotation}"
        )
        self._notes.append(Note(field, message, lost=True))


def _count(replica: Any) -> Any:
    return replica.get("replicas") if isinstance(replica, dict) else None


def _short(api_version: str) -> str:
    return api_version.rpartition("/")[2]
