"""A status that another operator, or a person, has left, by chance."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from typing import Any

import msgspec

from hack.random_jobs.chances import chance, some, timestamp
from hack.simulated_objects import NOW
from tfoperator.api.replicas.names import MAX_RESTARTS
from tfoperator.api.v1.choices import Network
from tfoperator.api.v1.condition_types import ConditionType
from tfoperator.api.v1.status import TFJobStatus, UsagePhase, UsageSource

Json = dict[str, Any]

_AGES = (0, 1, 10, 30, 31, 600)
_COUNTS = (0, 1, 2, 3, -1, MAX_RESTARTS - 1, MAX_RESTARTS, MAX_RESTARTS, MAX_RESTARTS + 1)
_INDEXES = ("", "", "0", "0-1", "1", "1-2", "0,2", "2-4", "x")
_NODES = tuple(f"{name}/{node}" for name in ("worker-0", "worker-1", "ps-0", "chief-0") for node in "abcdefg")


def odd_status(rng: random.Random, status: TFJobStatus, now: datetime) -> TFJobStatus:
    """Return the status with one part changed or left out."""
    fields: Json = json.loads(msgspec.json.encode(status))
    match rng.randrange(8):
        case 0 | 1 | 2 if fields.get("replicaStatuses"):
            kind = rng.choice(sorted(fields["replicaStatuses"]))
            _spoil_replicas(rng, fields["replicaStatuses"][kind])
        case 3 | 4 if fields.get("conditions"):
            _spoil_condition(rng, rng.choice(fields["conditions"]), now)
        case 5:
            failed = rng.sample(_NODES, rng.choice((1, 2, 5, 20)))
            fields["nodeFailures"] = {name: rng.choice((1, 2, 3)) for name in failed}
        case 6:
            _spoil_usage(rng, fields.setdefault("usage", {}), now)
        case _:
            _spoil_rest(rng, fields, now)
    return msgspec.convert(fields, TFJobStatus)


def _spoil_replicas(rng: random.Random, replicas: Json) -> None:
    match rng.randrange(4):
        case 0:
            indexes = rng.sample(("0", "1", "2", "x", "-1"), rng.choice((0, 1, 2)))
            replicas["restartCounts"] = {index: rng.choice(_COUNTS) for index in indexes}
        case 1:
            replicas["active"] = rng.choice((-1, 0, 1, 2))
        case _:
            replicas[rng.choice(("completedIndexes", "failedIndexes", "startedIndexes"))] = rng.choice(_INDEXES)


def _spoil_condition(rng: random.Random, condition: Json, now: datetime) -> None:
    match rng.randrange(5):
        case 0:
            condition["type"] = rng.choice([*ConditionType])
        case 1:
            condition["status"] = rng.choice(("True", "False", "Unknown"))
        case 2:
            condition["lastTransitionTime"] = _time(rng, now)
        case 3:
            condition.pop("lastTransitionTime", None)
        case _:
            condition["message"] = ""


def _spoil_usage(rng: random.Random, usage: Json, now: datetime) -> None:
    name, value = rng.choice(
        [
            ("phase", rng.choice(("", "odd", *UsagePhase))),
            ("since", _time(rng, now)),
            ("seconds", {rng.choice(("odd", *UsagePhase)): rng.choice((-1, 0, 7, 10**16))}),
            ("source", rng.choice(("", *UsageSource))),
            ("step", rng.choice((None, 0, 5, 7))),
            ("stepTime", _time(rng, now)),
            ("restarts", rng.choice(_COUNTS)),
            ("resources", {name: _resource(rng) for name in rng.sample(("cpu", "c", "d"), 2)}),
            ("resourcesSince", _time(rng, now)),
        ]
    )
    usage[name] = value


def _resource(rng: random.Random) -> Json:
    return {"inUse": rng.choice((0, 2)), "requestedSeconds": rng.choice((0, 0, 1e31)), "trainedSeconds": 0}


def _spoil_rest(rng: random.Random, fields: Json, now: datetime) -> None:
    match rng.randrange(6):
        case 0:
            fields["jobRestarts"] = rng.choice(_COUNTS)
        case 1:
            fields["startTime"] = rng.choice((None, _time(rng, now)))
        case 2:
            fields["completionTime"] = rng.choice((None, _time(rng, now)))
            for condition in fields.get("conditions", ()):  # the Go operator can leave out either
                condition.pop("lastTransitionTime", None)
        case 3:
            fields["network"] = rng.choice(("", *Network))
        case 4:
            fields["tensorBoard"] = rng.choice((None, {"url": "http://old"}))
        case _:
            fields["conditions"] = []


def _time(rng: random.Random, now: datetime) -> str:
    """Return a moment that is over, as a status has it, or without a time zone as it should not."""
    moment = now - timedelta(seconds=rng.choice(_AGES))
    return (moment.replace(tzinfo=None) if chance(rng, 0.1) else moment).isoformat()


def random_status(rng: random.Random) -> Json:
    """Return the status of a job that has had a life, with values among them that no operator writes."""
    kinds = rng.sample([*ConditionType], rng.choice((0, 1, 2, 3)))
    status: Json = {
        "conditions": [{"type": str(kind), "status": rng.choice(("True", "True", "False", "odd"))} for kind in kinds],
        "replicaStatuses": {
            kind: {
                "active": rng.choice((0, 1, -1)),
                "restartCounts": {rng.choice(("0", "1", "-1", "x", "9" * 25)): rng.choice(_COUNTS)},
                "disruptionCounts": {rng.choice(("0", "1", "-1", "x")): rng.choice(_COUNTS)},
            }
            for kind in rng.sample(("PS", "Worker", "Chief", "odd"), rng.choice((0, 1, 2)))
        },
    }
    for _ in range(rng.choice((1, 3, 9))):
        status = msgspec.to_builtins(odd_status(rng, msgspec.convert(status, TFJobStatus), NOW))
    return status | some(
        rng,
        0.3,
        restarts=lambda: rng.choice(_COUNTS),
        jobDisruptions=lambda: rng.choice((*_COUNTS, 10**12)),
        sharedRestarts=lambda: rng.choice((*_COUNTS, 10**12)),
        disruptionBackoff=lambda: _backoff(rng),
        progress=lambda: _progress(rng),
        startTime=lambda: timestamp(rng),
        completionTime=lambda: timestamp(rng),
    )


def _backoff(rng: random.Random) -> Json:
    backoff = {"count": rng.choice(_COUNTS), "replicas": {rng.choice(("Worker", "odd")): _indexes(rng)}}
    return backoff | some(rng, 0.8, since=lambda: timestamp(rng))


def _progress(rng: random.Random) -> Json:
    """Its lastUpdatedTime moves the deadline of progress, and the replicas that are behind restart."""
    behind = [
        {"name": rng.choice(("worker-0", "worker-1", "ps-0", "x", "")), "step": rng.choice((0, 7, -1, 2**31))}
        | some(rng, 0.5, lastUpdatedTime=lambda: timestamp(rng))
        for _ in range(rng.choice((0, 1, 2)))
    ]
    return {"behind": behind} | some(
        rng,
        0.7,
        lastUpdatedTime=lambda: timestamp(rng),
        percentage=lambda: rng.choice((0, 45, 100)),
        step=lambda: rng.choice((0, 7, 2**31)),
    )


def _indexes(rng: random.Random) -> str:
    if chance(rng, 0.2):
        return "".join(rng.choice("0123456789-,") for _ in range(rng.randrange(10)))
    return rng.choice((*_INDEXES, "1-", "-", "3-1", "0,,1", "0-99999999999"))
