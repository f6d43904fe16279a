"""Feeds random and mutated TFJobs, with random pods, to what stands between an API server's bytes and a plan.

python hack/fuzz.py                          100,000 jobs from a new seed, which it prints
python hack/fuzz.py --seed 7 --count 1000    the same thousand each time
python hack/fuzz.py --seed 7 --first 812 --count 1    one of them again

A cluster holds jobs older than the CRD's rules, and one that makes the operator raise or spin is everybody's problem.
So: `decode_tfjob` raises nothing but its declared error, nothing after it raises anything, defaulting is idempotent, a
status survives its trip through JSON and a merge patch, and a plan comes to rest in a world that stands still. Each
job depends on the seed, its number and examples/peer alone.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tfoperator.api.defaults import default
from tfoperator.api.names import (
    ANNOTATION_RESTARTS,
    LABEL_JOB_NAME,
    LABEL_OPERATOR_NAME,
    LABEL_REPLICA_INDEX,
    LABEL_REPLICA_TYPE,
    OPERATOR_NAME,
)
from tfoperator.api.problems import errors
from tfoperator.api.v1.types import ConditionType, ReplicaType, TFJob, TFJobStatus, decode_tfjob
from tfoperator.api.validation import validate, validate_manifest
from tfoperator.controller.actions import BoardCreate
from tfoperator.controller.draft import MAX_REQUEUE
from tfoperator.controller.gang import PodGroup, decode_pod_group, gang_scheduler
from tfoperator.controller.naming import NAMINGS
from tfoperator.controller.plan import Observed, Plan, PlanOptions, plan
from tfoperator.controller.status_patch import status_patch
from tfoperator.kube.objects import Deployment, ObjectMeta, Pod, PodStatus, Service

__all__ = ["Case", "Finding", "check", "damaged", "fuzz", "main", "make_case"]

ROOT = Path(__file__).resolve().parent.parent
MAX_ROUNDS = 12
MAX_WAITS = 6
_DEPTH = 30
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)

_TIMES = (*(NOW + timedelta(seconds=s) for s in (-90000, -61, -1, 0, 0.5, 3600)),)
_EXTREME_TIMES = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC))
_STRINGS = ("", "0", "-1", "x", "Worker", "worker", "None", "null", "a" * 300, "Ünïcode", "a/b", "\x00", "1e9", "{{}}")
_NUMBERS = (0, 1, -1, 2, 7, 2**31 - 1, 2**31, -(2**31), 2**63, -(2**63) - 1, 10**30, 0.5, 1e308, -0.0)
_POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
_SHARES = (0, 1, 2, 10_001, "0%", "1%", "50%", "100%", "101%", "x%")
_PHASES = ("Pending", "Running", "Running", "Succeeded", "Failed", "Failed", "Unknown", "", "odd")


class Case(NamedTuple):
    """One job as bytes, and the world around it."""

    data: bytes
    pods: tuple[Pod, ...]
    now: datetime
    options: PlanOptions
    graceful: bool
    """Whether deleted pods stay, terminating, for as long as anybody looks."""


class Finding(Exception):
    """Something that must not be: says what, and which case."""


def fuzz(seed: str, numbers: Sequence[int], progress: Callable[[int], None] = lambda _: None) -> int:
    """Check the cases of these numbers; returns how many jobs could be decoded. Raises Finding at the first bad one."""
    decoded = 0
    for number in numbers:
        case = make_case(seed, number)
        try:
            decoded += check(case)
        except Exception as error:
            raise Finding(f"seed {seed}, number {number}: {error!r}\njob: {case.data!r}\npods: {case.pods}") from error
        progress(number)
    return decoded


def make_case(seed: str, number: int) -> Case:
    """The case of this number: always the same for the same seed."""
    rng = random.Random(f"{seed}:{number}")
    manifest: Any = json.loads(rng.choice(_examples())) if rng.random() < 0.2 else _manifest(rng)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 8))):
        manifest = _mutated(rng, manifest)
    data = json.dumps(manifest).encode()
    if rng.random() < 0.05:
        data = damaged(rng, data)
    return Case(
        data=data,
        pods=tuple(_pod(rng, number) for number in range(rng.choice((0, 0, 1, 2, 4)))),
        now=rng.choice(_TIMES if rng.random() < 0.95 else _EXTREME_TIMES),
        options=PlanOptions(
            restart_delay_base=rng.choice((0.0, 1.0, 30.0)),
            object_name=rng.choice(NAMINGS),
            default_ps_image=rng.choice(("", "example.com/ps:1")),
            gang=rng.choice((None, None, gang_scheduler("volcano"), gang_scheduler("mine"))),
        ),
        graceful=rng.random() < 0.3,
    )


def check(case: Case) -> bool:
    """Take one job all the way; False if its bytes were rightly refused. Raises whatever is wrong."""
    try:
        job = decode_tfjob(case.data)
    except msgspec.DecodeError:
        assert not _has_readable_metadata(case.data), "a job with readable metadata was refused"
        return False
    for problem in validate_manifest(json.loads(case.data)):
        str(problem)
    defaulted = default(job)
    assert default(defaulted) == defaulted, "defaulting twice is not defaulting once"
    problems = tuple(str(problem) for problem in errors(validate(defaulted)))
    _World(defaulted, problems, case).come_to_rest()
    return True


def _has_readable_metadata(data: bytes) -> bool:
    try:
        value = msgspec.json.decode(data.decode())
        metadata = value.get("metadata", {}) if isinstance(value, dict) else None
        msgspec.convert(metadata, ObjectMeta)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


class _World:
    """The job and its objects as an API server would keep them; nothing in it moves but by the operator's doing."""

    def __init__(self, job: TFJob, problems: tuple[str, ...], case: Case) -> None:
        self.job, self.problems, self.now, self.options = job, problems, case.now, case.options
        self.graceful = case.graceful
        self.pods = {pod.metadata.name: pod for pod in case.pods}
        self.services: dict[str, Service] = {}
        self.deployments: dict[str, Deployment] = {}
        self.pod_group: PodGroup | None = None
        self.made = 0

    def come_to_rest(self) -> None:
        """Plan and carry out until there is nothing to do, then let the time pass that the plan asks for, and again."""
        for _ in range(MAX_WAITS):
            wait = self._settle()
            if wait is None:
                return
            assert wait > 0, "requeued at once although nothing changes"
            try:
                self.now += timedelta(seconds=wait) + timedelta(milliseconds=1)
            except OverflowError:
                return

    def _settle(self) -> float | None:
        for _ in range(MAX_ROUNDS):
            pods, services = tuple(self.pods.values()), tuple(self.services.values())
            observed = Observed(self.job, pods, services, self.problems, self.pod_group, {"x": 1})
            observed = msgspec.structs.replace(observed, deployments=tuple(self.deployments.values()))
            result = plan(observed, self.now, self.options)
            assert result.requeue_after is None or 0 <= result.requeue_after <= MAX_REQUEUE, result.requeue_after
            if result.delete_job:
                return None
            if not (result.acts or result.write_status or result.events):
                return result.requeue_after
            self._carry_out(result)
        raise AssertionError(f"keeps acting on a world that stands still: {result}")

    def _carry_out_pod_group(self, result: Plan) -> None:
        """What is made is let in at once: what a scheduler keeps waiting stands still."""
        if result.delete_pod_group is not None:
            assert self.pod_group is not None, "a PodGroup that is not there"
            self.pod_group = None
        if result.create_pod_group is not None:
            assert self.pod_group is None, "a PodGroup that exists"
            body = {**result.create_pod_group.body, "status": {"phase": "Inqueue"}}
            made = decode_pod_group(msgspec.json.encode(body))
            self.pod_group = msgspec.structs.replace(made, metadata=self._born(body))
        if result.patch_pod_group is not None:
            assert self.pod_group is not None, "a PodGroup that is not there"
            merged = _merged(msgspec.to_builtins(self.pod_group), result.patch_pod_group.change)
            self.pod_group = msgspec.convert(merged, PodGroup)

    def _carry_out_board(self, result: Plan) -> None:
        for action in result.board:
            match action:
                case BoardCreate(kind="deployments"):
                    assert action.name not in self.deployments, "a deployment that exists"
                    self.deployments[action.name] = Deployment(metadata=self._born(action.body))
                case BoardCreate():
                    assert action.name not in self.services, "a service that exists"
                    self.services[action.name] = Service(metadata=self._born(action.body))
                case _:
                    raise AssertionError(f"nothing has changed, and yet: {action}")

    def _carry_out(self, result: Plan) -> None:
        self._carry_out_pod_group(result)
        self._carry_out_board(result)
        patch = status_patch(self.job.status, result.status)
        if result.write_status:
            assert patch is not None, "a status to write that says nothing new"
            old = json.loads(msgspec.json.encode(self.job.status))
            merged = _merged(old, json.loads(msgspec.json.encode(patch))["status"])
            assert msgspec.convert(merged, TFJobStatus) == result.status, "the patch leads elsewhere"
            self.job = msgspec.structs.replace(self.job, status=result.status)
        for deletion in result.delete_pods:
            pod = self.pods.pop(deletion.name)
            if self.graceful and deletion.grace_period_seconds != 0:
                grace = pod.metadata.deletion_grace_period_seconds or 30
                gone = msgspec.structs.replace(
                    pod.metadata, deletion_timestamp=self.now, deletion_grace_period_seconds=grace
                )
                self.pods[deletion.name] = msgspec.structs.replace(pod, metadata=gone)
        for service in result.delete_services:
            del self.services[service.name]
        for creation in result.create_services:
            assert creation.name not in self.services, "a service that exists"
            self.services[creation.name] = Service(metadata=self._born(creation.body))
        for new in result.create_pods:
            # A stranger's pod may have the name: the operator waits for it to go, and so the API server says no.
            if new.name not in self.pods:
                self.pods[new.name] = Pod(metadata=self._born(new.body), status=PodStatus(phase="Pending"))

    def _born(self, body: dict[str, Any]) -> ObjectMeta:
        self.made += 1
        meta = msgspec.convert(json.loads(msgspec.json.encode(body))["metadata"], ObjectMeta)
        return msgspec.structs.replace(meta, uid=f"made-{self.made}", creation_timestamp=self.now)


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


# Making jobs


@cache
def _examples() -> tuple[str, ...]:
    found = [
        json.dumps(document, default=str)
        for path in sorted(ROOT.glob("examples/peer/*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]
    assert found, "the examples have gone"
    return tuple(found)


def _some(rng: random.Random, chance: float, **makers: Callable[[], Any]) -> dict[str, Any]:
    """Each of these members with that chance."""
    return {name: make() for name, make in makers.items() if rng.random() < chance}


def _manifest(rng: random.Random) -> dict[str, Any]:
    """A TFJob that is mostly in order, with a status as an operator may have left it."""
    kinds = rng.sample(list(ReplicaType), rng.choice((1, 1, 2, 3)))
    spec: dict[str, Any] = {"tfReplicaSpecs": {str(kind): _replica(rng) for kind in kinds}}
    spec["runPolicy"] = _some(
        rng,
        0.4,
        cleanPodPolicy=lambda: rng.choice(("All", "Running", "None", "")),
        ttlSecondsAfterFinished=lambda: rng.choice((0, 60, 2**31 - 1)),
        activeDeadlineSeconds=lambda: rng.choice((0, 1, 3600, 2**31 - 1)),
        backoffLimit=lambda: rng.choice((0, 1, 6)),
        suspend=lambda: rng.random() < 0.3,
        managedBy=lambda: "kubeflow.org/training-operator",
    )
    spec |= _some(
        rng,
        0.15,
        successPolicy=lambda: rng.choice(("", "AllWorkers")),
        minSucceededWorkers=lambda: rng.choice(_SHARES),
        maxFailedWorkers=lambda: rng.choice(_SHARES),
        enableDynamicWorker=lambda: rng.random() < 0.5,
        clusterArguments=lambda: rng.random() < 0.5,
        evaluatorInCluster=lambda: rng.random() < 0.5,
        tensorBoard=lambda: {"logDir": rng.choice(("/logs", "gs://b", "")), "image": rng.choice(("", "i:1"))},
        checkpoint=lambda: {"volume": {"emptyDir": {}}, "mountPath": rng.choice(("/ckpt", "x", "/"))},
    )
    metadata = {"name": "mnist", "namespace": "ns", "uid": "job-uid", "generation": 1}
    manifest = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": metadata, "spec": spec}
    if rng.random() < 0.5:
        manifest["status"] = _status(rng)
    return manifest


def _replica(rng: random.Random) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "tensorflow", "image": "example.com/train:1"}
    if rng.random() < 0.2:
        container |= {"ports": [{"name": "tfjob-port", "containerPort": rng.choice((1, 2222, 65535))}], "args": ["a"]}
    replica: dict[str, Any] = {"template": {"spec": {"containers": [container]}}}
    count = rng.choice((0, 1, 1, 2, 3)) if rng.random() < 0.999 else 1000
    return replica | _some(rng, 0.8, replicas=lambda: count, restartPolicy=lambda: rng.choice(_POLICIES))


def _status(rng: random.Random) -> dict[str, Any]:
    kinds = rng.sample([*ConditionType], rng.choice((0, 1, 2, 3)))
    status: dict[str, Any] = {
        "conditions": [{"type": str(kind), "status": rng.choice(("True", "True", "False", "odd"))} for kind in kinds],
        "replicaStatuses": {
            kind: {
                "active": rng.choice((0, 1, -1)),
                "restarts": rng.choice((0, 2, -2)),
                "restartCounts": {rng.choice(("0", "1", "-1", "x", "9" * 25)): rng.choice((0, 1, -1, 2**31 - 1))},
                "completedIndexes": rng.choice(("", "0", "0-1", "1-", "-", "3-1", "0,,1", "0-99999999999")),
                "failedIndexes": rng.choice(("", "", "0", "1-2", "-", "0-99999999999")),
                "startedIndexes": rng.choice(("", "0", "0-2", "x")),
            }
            for kind in rng.sample(("PS", "Worker", "Chief", "odd"), rng.choice((0, 1, 2)))
        },
    }
    return status | _some(rng, 0.4, startTime=lambda: _time(rng), completionTime=lambda: _time(rng))


def _time(rng: random.Random) -> str:
    return rng.choice(_TIMES if rng.random() < 0.9 else _EXTREME_TIMES).isoformat()


def _pod(rng: random.Random, number: int) -> Pod:
    """A pod of the job, as a kubelet or a stranger may have left it."""
    kind, index = rng.choice(("worker", "ps", "chief", "junk")), rng.choice(("0", "1", "2", "-1", "01", "x", "9" * 30))
    labels = {LABEL_REPLICA_TYPE: kind, LABEL_REPLICA_INDEX: index, LABEL_JOB_NAME: "mnist"}
    labels[LABEL_OPERATOR_NAME] = OPERATOR_NAME
    name = f"mnist-{kind}-{index}" if rng.random() < 0.8 else f"mnist-{kind}-{index}-{number}"
    if rng.random() < 0.1:
        # Not under a replica's name: whose names are taken is for the API server to say, and not the plan's to know.
        name = f"stray-{number}"
        del labels[rng.choice(list(labels))]
    metadata: dict[str, Any] = {"name": name, "uid": f"pod-{number}", "labels": labels}
    metadata["annotations"] = {ANNOTATION_RESTARTS: rng.choice(("", "0", "3", "-3", "x", "9" * 40))}
    metadata |= _some(rng, 0.8, creationTimestamp=lambda: _time(rng))
    metadata |= _some(
        rng,
        0.2,
        deletionTimestamp=lambda: _time(rng),
        deletionGracePeriodSeconds=lambda: rng.choice((0, 30, -1, 2**62)),
    )
    code = rng.choice((0, 1, 127, 128, 137, 255, -1, 10**12))
    ended = {"exitCode": code} | _some(rng, 0.8, finishedAt=lambda: _time(rng))
    container = {"name": "tensorflow", "ready": rng.random() < 0.5, "restartCount": rng.choice((0, 1, -1, 10**12))}
    states: tuple[dict[str, Any], ...] = ({}, {"terminated": ended}, {"waiting": {"reason": "CrashLoopBackOff"}})
    status: dict[str, Any] = {
        "phase": rng.choice(_PHASES),
        "reason": rng.choice(("", "Evicted", "NodeLost")),
        "containerStatuses": [{**container, "state": rng.choice(states), "lastState": rng.choice(states)}],
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}],
    }
    for name in ("conditions", "containerStatuses"):
        if rng.random() < 0.5:
            del status[name]
    return msgspec.convert({"metadata": metadata, "status": status}, Pod)


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
            parent[renamed] = parent[key] if rng.random() < 0.5 else parent.pop(key)
        case 3:
            other, place = rng.choice(places)
            parent[key] = json.loads(json.dumps(other[place]))
        case 4 if rng.random() < 0.05:
            parent[key] = _nested(rng.choice((10, 100)))
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
    kind = rng.randrange(6)
    if kind < 4:
        return rng.choice((_STRINGS, _NUMBERS, (True, False, None), ([], {}, [None], {"": None}))[kind])
    inner = [_junk(rng) for _ in range(rng.choice((0, 1, 2)))]
    return inner if kind == 4 else {rng.choice(_STRINGS): item for item in inner}


def _nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = [value]
    return value


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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases and say how it went; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**9)), help="a new one if not given")
    parser.add_argument("--first", type=int, default=0, help="the number of the first job")
    parser.add_argument("--count", type=int, default=100_000, help="how many jobs")
    arguments = parser.parse_args(argv)
    began = time.monotonic()

    def progress(number: int) -> None:
        done = number - arguments.first + 1
        if done % 5000 == 0:
            print(f"{done} of {arguments.count} after {time.monotonic() - began:.0f} s", flush=True)

    print(f"seed {arguments.seed}", flush=True)
    try:
        decoded = fuzz(arguments.seed, range(arguments.first, arguments.first + arguments.count), progress)
    except Finding as finding:
        traceback.print_exception(finding.__cause__)
        print(finding, file=sys.stderr)
        return 1
    print(f"{arguments.count} jobs ({decoded} could be decoded), no finding, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
