"""Random TFJobs with random pods, as an API server may hold them: mostly in order, then spoilt.

The caller's `random.Random` decides everything. `hack/fuzz.py` gives one per number, and unit tests Hypothesis' own,
which searches, and shrinks what it finds; that one is some twenty times slower.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from hack.simulated_objects import NOW
from tfoperator.api.names import (
    ANNOTATION_JOB_RESTARTS,
    ANNOTATION_RESTARTS,
    LABEL_JOB_NAME,
    LABEL_OPERATOR_NAME,
    LABEL_REPLICA_INDEX,
    LABEL_REPLICA_TYPE,
    OPERATOR_NAME,
)
from tfoperator.api.v1.types import ConditionType, Network, ReplicaType
from tfoperator.controller import NAMINGS, PlanOptions, gang_scheduler
from tfoperator.kube.objects import Pod

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "peer"
_DEPTH = 30

_TIMES = (*(NOW + timedelta(seconds=s) for s in (-90000, -61, -1, 0, 0.5, 3600)),)
_EXTREME_TIMES = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC))
_STRINGS = ("", "0", "-1", "x", "Worker", "worker", "None", "null", "a" * 300, "Ünïcode", "a/b", "\x00", "1e9", "{{}}")
_NUMBERS = (0, 1, -1, 2, 7, 2**31 - 1, 2**31, -(2**31), 2**63, -(2**63) - 1, 10**30, 0.5, 1e308, -0.0)
_SHARES = (0, 1, 2, 10_001, "0%", "1%", "50%", "100%", "101%", "x%")
_PHASES = ("Pending", "Running", "Running", "Succeeded", "Failed", "Failed", "Unknown", "", "odd")


class Case(NamedTuple):
    """One job as bytes, and the world around it."""

    data: bytes
    pods: tuple[Pod, ...]
    now: datetime
    options: PlanOptions
    problems: tuple[str, ...] | None
    """What validation is made to have found; None for what it does find."""
    graceful: bool
    """Whether deleted pods stay, terminating, for as long as anybody looks."""


def random_case(rng: random.Random) -> Case:
    """One case; the same one from the same random numbers and examples."""
    manifest: Any = json.loads(rng.choice(_examples())) if _chance(rng, 0.2) else _manifest(rng)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 8))):
        manifest = _mutated(rng, manifest)
    data = json.dumps(manifest).encode()
    if _chance(rng, 0.05):
        data = damaged(rng, data)
    # What cannot be acted on is noticed without validation, too.
    alleged: tuple[tuple[str, ...], ...] = (("spec: is bad",), ())
    return Case(
        data=data,
        pods=tuple(_pod(rng, number) for number in range(rng.choice((0, 0, 1, 2, 4)))),
        now=_moment(rng),
        options=PlanOptions(
            restart_delay_base=rng.choice((0.0, 1.0, 30.0)),
            naming=rng.choice(NAMINGS),
            network=rng.choice(tuple(Network)),
            default_ps_image=rng.choice(("", "example.com/ps:1")),
            gang=rng.choice((None, None, gang_scheduler("volcano"), gang_scheduler("mine"))),
        ),
        problems=rng.choice(alleged) if _chance(rng, 0.15) else None,
        graceful=_chance(rng, 0.3),
    )


@cache
def _examples() -> tuple[str, ...]:
    found = [
        json.dumps(document, default=str)
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    assert found, "the examples have gone"
    return tuple(found)


def _number(rng: random.Random, usual: Sequence[int], bound: int) -> int:
    """Mostly a usual number, and sometimes any up to the bound, of either sign."""
    return rng.choice(usual) if not _chance(rng, 0.05) else rng.randint(-bound, bound)


def _chance(rng: random.Random, share: float) -> bool:
    """True in that share of cases, and never for small numbers: what Hypothesis finds shrinks to a plain job."""
    return rng.random() >= 1 - share


def _some(rng: random.Random, chance: float, **makers: Callable[[], Any]) -> dict[str, Any]:
    """Each of these members with that chance."""
    return {name: make() for name, make in makers.items() if _chance(rng, chance)}


def _tensorboard(rng: random.Random) -> dict[str, Any]:
    board = {"logDir": rng.choice(("/logs", "gs://b", "")), "image": rng.choice(("", "i:1"))}
    return board | _some(
        rng,
        0.3,
        env=lambda: [{"name": rng.choice(("A", "", "TENSORBOARD_PORT")), "value": "1"}],
        imagePullSecrets=lambda: [{"name": rng.choice(("registry", ""))}],
        nodeSelector=lambda: {"disk": rng.choice(("fast", "slow"))},
        securityContext=lambda: rng.choice(({}, {"runAsUser": 1000}, {"fsGroup": 1})),
        serviceAccountName=lambda: rng.choice(("", "reader")),
    )


def _manifest(rng: random.Random) -> dict[str, Any]:
    """A TFJob that is mostly in order, with a status as an operator may have left it."""
    kinds = rng.sample(list(ReplicaType), rng.choice((1, 1, 2, 3)))
    spec: dict[str, Any] = {"tfReplicaSpecs": {str(kind): _replica(rng) for kind in kinds}}
    spec["runPolicy"] = _some(
        rng,
        0.4,
        cleanPodPolicy=lambda: rng.choice(("All", "Running", "None", "")),
        ttlSecondsAfterFinished=lambda: _number(rng, (0, 60, 2**31 - 1), 10**25),
        activeDeadlineSeconds=lambda: _number(rng, (0, 1, 3600, 2**31 - 1), 10**25),
        backoffLimit=lambda: _number(rng, (0, 1, 6), 10**30),
        restartScope=lambda: rng.choice(("Job", "Job", "Replica", "")),
        progressDeadlineSeconds=lambda: _number(rng, (1, 60, 600), 10**25),
        onStall=lambda: rng.choice(("Report", "Restart", "Restart", "Fail", "")),
        suspend=lambda: _chance(rng, 0.3),
        schedulingPolicy=lambda: _some(
            rng,
            0.3,
            minAvailable=lambda: rng.choice((0, 1, 5)),
            priorityClass=lambda: rng.choice(("", "high", "system-cluster-critical")),
            queue=lambda: rng.choice(("", "shared")),
        ),
        managedBy=lambda: rng.choice((*["kubeflow.org/training-operator"] * 8, "", "someone")),
    )
    spec |= _some(
        rng,
        0.15,
        successPolicy=lambda: rng.choice(("", "AllWorkers")),
        minSucceededWorkers=lambda: rng.choice(_SHARES),
        maxFailedWorkers=lambda: rng.choice(_SHARES),
        enableDynamicWorker=lambda: _chance(rng, 0.5),
        clusterArguments=lambda: _chance(rng, 0.5),
        evaluatorInCluster=lambda: _chance(rng, 0.5),
        network=lambda: rng.choice((*Network, Network.PER_JOB, "", "perjob")),
        tensorBoard=lambda: _tensorboard(rng),
        checkpoint=lambda: {"volume": {"emptyDir": {}}, "mountPath": rng.choice(("/ckpt", "x", "/"))},
    )
    metadata = {"name": "mnist", "namespace": "ns", "uid": "job-uid", "generation": 1}
    manifest = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}
    if _chance(rng, 0.5):
        manifest["status"] = _status(rng)
    return manifest


def _replica(rng: random.Random) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "tensorflow", "image": "example.com/train:1"}
    if _chance(rng, 0.2):
        container |= {"ports": [{"name": "tfjob-port", "containerPort": rng.choice((1, 2222, 65535))}], "args": ["a"]}
    pod = {"containers": [container]} | _some(
        rng, 0.1, hostname=lambda: "h", subdomain=lambda: rng.choice(("mnist", 1))
    )
    replica: dict[str, Any] = {"template": {"spec": pod}}
    counts = (0, 1, 1, 2, 3) if not _chance(rng, 0.001) else (-1, 1000)
    return replica | _some(
        rng,
        0.8,
        replicas=lambda: _number(rng, counts, 10**12),
        restartPolicy=lambda: rng.choice(("Always", "OnFailure", "Never", "ExitCode")),
    )


def _status(rng: random.Random) -> dict[str, Any]:
    kinds = rng.sample([*ConditionType], rng.choice((0, 1, 2, 3)))
    status: dict[str, Any] = {
        "conditions": [{"type": str(kind), "status": rng.choice(("True", "True", "False", "odd"))} for kind in kinds],
        "replicaStatuses": {
            kind: {
                "active": rng.choice((0, 1, -1)),
                "restarts": rng.choice((0, 2, -2)),
                "restartCounts": {rng.choice(("0", "1", "-1", "x", "9" * 25)): rng.choice((0, 1, -1, 2**31 - 1))},
                "completedIndexes": _indexes(rng),
                "failedIndexes": _indexes(rng),
                "startedIndexes": _indexes(rng),
            }
            for kind in rng.sample(("PS", "Worker", "Chief", "odd"), rng.choice((0, 1, 2)))
        },
    }
    status |= _some(rng, 0.3, jobRestarts=lambda: rng.choice((0, 1, 3, -2, 10**12)))
    status |= _some(rng, 0.3, progress=lambda: _progress(rng))
    status |= _some(rng, 0.2, network=lambda: rng.choice((Network.PER_JOB, Network.PER_REPLICA, "x")))
    return status | _some(rng, 0.4, startTime=lambda: _time(rng), completionTime=lambda: _time(rng))


def _progress(rng: random.Random) -> dict[str, Any]:
    """What a job has reported: its lastUpdatedTime moves the deadline of its progress, and who is behind restarts."""
    behind = [
        {"name": rng.choice(("worker-0", "worker-1", "ps-0", "x", "")), "step": rng.choice((0, 7, -1, 2**31))}
        | _some(rng, 0.5, lastUpdatedTime=lambda: _time(rng))
        for _ in range(rng.choice((0, 1, 2)))
    ]
    return {"behind": behind} | _some(
        rng,
        0.7,
        lastUpdatedTime=lambda: _time(rng),
        percentage=lambda: rng.choice((0, 45, 100)),
        step=lambda: rng.choice((0, 7, 2**31)),
    )


def _indexes(rng: random.Random) -> str:
    if _chance(rng, 0.1):
        return "".join(rng.choice("0123456789-,") for _ in range(rng.randrange(10)))
    return rng.choice(("", "", "0", "0-1", "0-2", "1-2", "x", "1-", "-", "3-1", "0,,1", "0-99999999999"))


def _moment(rng: random.Random) -> datetime:
    """Mostly near to now."""
    first, last, _ = _EXTREME_TIMES
    if _chance(rng, 0.03):
        return first + timedelta(seconds=rng.randrange(int((last - first).total_seconds())))
    return rng.choice(_TIMES if not _chance(rng, 0.05) else _EXTREME_TIMES)


def _time(rng: random.Random) -> str:
    """A moment as a status has it, or as it should not: without a time zone."""
    return _moment(rng).replace(tzinfo=UTC if not _chance(rng, 0.02) else None).isoformat()


def _pod(rng: random.Random, number: int) -> Pod:
    """A pod of the job, as a kubelet or a stranger may have left it."""
    kind = rng.choice(("worker", "worker", "ps", "ps", "chief", "chief", "junk", "WORKER", ""))
    index = rng.choice(("0", "0", "1", "1", "2", "2", "-1", "01", "x", "", str(2**31 - 2), "9" * 30))
    labels = {LABEL_REPLICA_TYPE: kind, LABEL_REPLICA_INDEX: index, LABEL_JOB_NAME: "mnist"}
    labels[LABEL_OPERATOR_NAME] = OPERATOR_NAME
    name = f"mnist-{kind}-{index}" if not _chance(rng, 0.2) else f"mnist-{kind}-{index}-{number}"
    if _chance(rng, 0.1):
        # Not under a replica's name: whose names are taken is for the API server to say, and not the plan's to know.
        name = f"stray-{number}"
        del labels[rng.choice(list(labels))]
    metadata: dict[str, Any] = {"name": name, "uid": f"pod-{number}", "labels": labels}
    counts = ("", "0", "3", "-3", "x", "9" * 40, "٣")
    metadata["annotations"] = {ANNOTATION_RESTARTS: rng.choice(counts)}
    metadata["annotations"] |= _some(rng, 0.3, **{ANNOTATION_JOB_RESTARTS: lambda: rng.choice((*counts, "1"))})
    metadata |= _some(rng, 0.8, creationTimestamp=lambda: _time(rng))
    metadata |= _some(
        rng,
        0.2,
        deletionTimestamp=lambda: _time(rng),
        deletionGracePeriodSeconds=lambda: rng.choice((0, 30, -1, 2**62)),
    )
    code = _number(rng, (0, 1, 127, 128, 137, 255, -1, 10**12), 10**12)
    ended = {"exitCode": code} | _some(rng, 0.8, finishedAt=lambda: _time(rng))
    container = {
        "name": "tensorflow",
        "ready": _chance(rng, 0.5),
        "restartCount": _number(rng, (0, 1, -1, 10**12), 10**12),
    }
    states: tuple[dict[str, Any], ...] = ({}, {"terminated": ended}, {"waiting": {"reason": "CrashLoopBackOff"}})
    status: dict[str, Any] = {
        "phase": rng.choice(_PHASES),
        "reason": rng.choice(("", "Evicted", "NodeLost")),
        "containerStatuses": [{**container, "state": rng.choice(states), "lastState": rng.choice(states)}],
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"},
            {"type": "Ready", "status": rng.choice(("True", "False"))},
        ],
    }
    for name in ("conditions", "containerStatuses"):
        if _chance(rng, 0.5):
            del status[name]
    spec = _some(rng, 0.5, nodeName=lambda: "node", activeDeadlineSeconds=lambda: rng.choice((1, 2, 3600)))
    spec |= _some(rng, 0.2, subdomain=lambda: rng.choice(("mnist", "mnist-job-uid", "x")))
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


# Spoiling them


def _mutated(rng: random.Random, manifest: Any) -> Any:
    """The same with one thing changed, somewhere (in place where it can be)."""
    places = list(_places(manifest))
    if not places:
        return _junk(rng)
    parent, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del parent[key]
        case 1:
            parent[key] = None
        case 2 if isinstance(parent, dict):
            renamed = rng.choice((key.upper(), key.lower(), key[:-1], f"{key}s", "", rng.choice(_STRINGS)))
            parent[renamed] = parent[key] if _chance(rng, 0.5) else parent.pop(key)
        case 3:
            other, place = rng.choice(places)
            parent[key] = json.loads(json.dumps(other[place]))
        case 4 if _chance(rng, 0.05):
            depth = rng.choice((10, 100))
            parent[key] = json.loads("[" * depth + "{}" + "]" * depth)
        case _:
            parent[key] = _junk(rng)
    return manifest


def _places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    # No deeper: each mutation adds levels, and beyond a thousand Python's own json gives up.
    if depth == _DEPTH:
        return
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _places(child, depth + 1)


def _junk(rng: random.Random) -> Any:
    kind = rng.randrange(7)
    if kind < 4:
        return rng.choice((_STRINGS, _NUMBERS, (True, False, None), ([], {}, [None], {"": None}))[kind])
    if kind == 4:
        return "".join(chr(rng.randrange(0xD800)) for _ in range(rng.randrange(6)))
    inner = [_junk(rng) for _ in range(rng.choice((0, 1, 2)))]
    return inner if kind == 5 else {rng.choice(_STRINGS): item for item in inner}


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The same bytes with a few of them changed, added or left out."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3))):
        position = rng.randrange(len(changed))
        match rng.randrange(3):
            case 0:
                changed[position] = rng.randrange(256)
            case 1:
                changed[position:position] = bytes(rng.choice(b'{}[]",:0 -e') for _ in range(2))
            case _:
                del changed[position : position + rng.choice((1, 1, 50))]
        if not changed:
            break
    return bytes(changed)
