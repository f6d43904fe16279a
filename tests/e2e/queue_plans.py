"""Random plans of jobs in one queue of a real Kueue, while its manager and the operator are killed: no quota overdrawn.

    python -m tests.e2e.queue_plans --plans 100        # prints a table; exits with 1 if a promise was broken

A plan is a queue of 4 CPUs, some jobs, some of them elastic, and steps in random order: pods begin, end, fail and
linger, or find no node; people submit, suspend, change and delete jobs, delete and deactivate Workloads, drain the
queue; Kueue and the operator are killed, each at least once, and start again some steps later. In the end nothing
disturbs the jobs any more, and all must come to their end.

The judge checks every state that the API server had, by watches, not samples: pods that have not ended never need more
CPUs than the queue has, and a job never has two Workloads, but for the Workload by which an elastic job asks for more.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hack.faults.journal import Entry, JournalRecorder
from hack.faults.oracle.history import true_conditions
from hack.kubelet import unscheduled
from tests.e2e.queues import Queues, queues_of, with_template
from tests.support.cluster import Cluster, Json, decode
from tests.support.eventually import eventually, eventually_holds
from tests.support.kueue import CLUSTER_QUEUES, PRIORITIES
from tfoperator.api.kueue.queues import JOB_UID_LABEL, PRIORITY_LABEL, REPLACES_ANNOTATION
from tfoperator.api.kueue.workloads import WORKLOADS
from tfoperator.api.replicas.names import ANNOTATION_PROBE
from tfoperator.api.v1.types import TFJOBS
from tfoperator.kube.protocol.errors import KubeError, NotFoundError
from tfoperator.kube.protocol.resources import PODS

CPUS = 4
STEPS = 60
REST_SECONDS = 150
"""How long jobs may take to their end once nothing disturbs them; a queue that was drained is looked at again later."""

_ENDED = ("Succeeded", "Failed")
_LINGERS = {"spec": {"terminationGracePeriodSeconds": 600}}


class Judge:
    """Records each version of pods and Workloads, and judges them in their order."""

    def __init__(self, queues: Queues) -> None:
        self.broken: list[str] = []
        self.seen = Counter[str]()
        self.most = 0
        self._journal = JournalRecorder(queues.client, queues.namespace, {"Workload": WORKLOADS})
        self._journal.__enter__()

    @property
    def versions(self) -> list[Entry]:
        """The versions of pods and Workloads so far, in their order."""
        return [entry for entry in self._journal.entries() if entry.kind in ("Pod", "Workload")]

    def end(self) -> None:
        """Record no more, and judge."""
        self.broken += [f"a watch was away from {after} to {until}" for after, until in self._journal.gaps()]
        self._journal.__exit__()
        self._judge_pods()
        self._judge_workloads()

    def _judge_pods(self) -> None:
        """Check that quota is never overdrawn.

        If somebody deactivates a Workload, Kueue gives its quota to others at once, before the operator gives it back,
        while the pods still end: until they have ended, these pods do not count.
        """
        alive: dict[str, tuple[str, str]] = {}  # uid: its job's UID, name
        deactivated = set[str]()
        for entry in self.versions:
            uid, obj, deleted = entry.uid, entry.obj, entry.what == "DELETED"
            job = obj["metadata"]["ownerReferences"][0]["uid"]
            if entry.kind == "Workload":
                if obj["spec"].get("active") is False:
                    deactivated.add(job)
                continue
            self.seen["pods"] += uid not in alive and not deleted
            alive[uid] = (job, "" if deleted or obj["status"].get("phase") in _ENDED else obj["metadata"]["name"])
            deactivated &= {job for job, name in alive.values() if name}
            counted = sorted(name for job, name in alive.values() if name and job not in deactivated)
            self.most = max(self.most, len(counted))
            if len(counted) > CPUS:
                self.broken.append(f"{len(counted)} CPUs of {CPUS} are taken: {counted}")

    def _judge_workloads(self) -> None:
        """Check that a job never has two Workloads, but for a Workload that is to replace the other."""
        latest_by_uid: dict[str, Json] = {}
        for entry in self.versions:
            if entry.kind != "Workload":
                continue
            uid, obj, before = entry.uid, entry.obj, latest_by_uid.get(entry.uid, {})
            replaces = REPLACES_ANNOTATION in obj["metadata"].get("annotations", {})
            self.seen["workloads"] += not before
            self.seen["larger"] += replaces and not before
            self.seen["grown"] += replaces and "QuotaReserved" in _true(obj) and "QuotaReserved" not in _true(before)
            self.seen["partial"] += _is_partial(obj) and not _is_partial(before)
            self.seen["evictions"] += "Evicted" in _true(obj) and "Evicted" not in _true(before)
            latest_by_uid[uid] = {"gone": True} if entry.what == "DELETED" else obj
            there = [workload for workload in latest_by_uid.values() if "gone" not in workload]
            owners = Counter(workload["metadata"]["labels"][JOB_UID_LABEL] for workload in there)
            asks = {
                workload["metadata"]["labels"][JOB_UID_LABEL]
                for workload in there
                if REPLACES_ANNOTATION in workload["metadata"].get("annotations", {})
            }
            self.broken += [
                f"job {owner} has {count} Workloads" for owner, count in owners.items() if count > 1 + (owner in asks)
            ]


def _true(workload: Json) -> list[str]:
    return list(true_conditions(workload.get("status", {})))


def _is_partial(workload: Json) -> bool:
    """Whether Kueue has admitted fewer pods than the Workload asks for, and fewer are enough."""
    assigned = workload.get("status", {}).get("admission", {}).get("podSetAssignments", ())
    counts = {assignment["name"]: assignment.get("count") for assignment in assigned}
    sets = workload.get("spec", {}).get("podSets", ())
    return any(
        "minCount" in pod_set and counts.get(pod_set["name"], pod_set["count"]) < pod_set["count"] for pod_set in sets
    )


def _in_words(entry: Entry) -> str:
    stops = " stops" if entry.obj["metadata"].get("deletionTimestamp") else ""
    return f"{entry.version} {entry.name}: {'deleted' if entry.what == 'DELETED' else _state(entry.obj) + stops}"


def _state(obj: Json) -> str:
    status, spec = obj.get("status", {}), obj["spec"]
    if "podSets" not in spec:
        return str(status.get("phase", "Pending"))
    counts = {pod_set["name"]: pod_set["count"] for pod_set in spec["podSets"]}
    admitted = [
        (assignment["name"], assignment.get("count"))
        for assignment in status.get("admission", {}).get("podSetAssignments", ())
    ]
    reclaimed = {pod["name"]: pod["count"] for pod in status.get("reclaimablePods", ())}
    active = "" if spec.get("active") is not False else " inactive"
    return (
        f"{counts} admitted {admitted} reclaimed {reclaimed} {_true(obj)}{active} {obj['metadata'].get('finalizers')}"
    )


class Plan:
    """One plan, in a namespace and with a queue of its own."""

    def __init__(self, queues: Queues, seed: int) -> None:
        self._rng = random.Random(seed)
        self._queues = queues
        self._queue = queues.queue(CPUS, name=f"plan-{seed}")
        self._jobs: list[str] = []
        self._later: list[tuple[int, Callable[[], None]]] = []
        self._down: set[str] = set()
        self._step = 0
        self.kills = Counter[str]()
        self.judge = Judge(queues)

    def play(self) -> list[str]:
        """Play; return the rules that were broken, empty if all were kept."""
        rng = self._rng
        for _ in range(2):
            self._submit()
        moves: list[tuple[int, Callable[[], None]]] = [
            (28, self._kubelet), (4, self._submit), (2, self._delete_job), (3, self._suspend), (2, self._scale),
            (2, self._delete_workload), (2, self._deactivate), (2, self._drain), (2, self._reprice),
            (4, self._change_policies),
            (3, lambda: self._kill("operator")), (3, lambda: self._kill("kueue")),
        ]  # fmt: skip
        # The course of a cluster is another each time, and so are the random moves: these two kills are certain.
        certain = dict(zip(rng.sample(range(STEPS // 4, STEPS), 2), ("operator", "kueue"), strict=True))
        for step in range(STEPS):
            if step in certain:
                self._kill(certain[step])
            for due in [planned for planned in self._later if planned[0] <= step]:
                self._later.remove(due)
                due[1]()
            self._step = step
            with suppress(KubeError):  # refused while Kueue is away, or gone meanwhile
                rng.choices([move for _, move in moves], [weight for weight, _ in moves])[0]()
            time.sleep(rng.choice((0.0, 0.02, 0.1, 0.4)))
        for _, start in self._later:
            start()
        self._rest()
        self.judge.end()
        return self.judge.broken

    @property
    def jobs(self) -> int:
        return len(self._jobs)

    # What happens.

    def _submit(self) -> None:
        rng, queues = self._rng, self._queues
        name = f"job-{len(self._jobs)}"
        is_elastic = rng.random() < 0.4
        has_server = not is_elastic and rng.random() < 0.4
        replicas = {"Worker": rng.randint(1, 3), **({"PS": 1} if has_server else {})}
        manifest = queues.manifest(name, self._queue, restart_policy=rng.choice(("OnFailure", "ExitCode")), **replicas)
        for kind in replicas:
            with_template(manifest, kind, _LINGERS)
        manifest["metadata"]["labels"] |= rng.choice(({}, {PRIORITY_LABEL: "high"}))
        policy = manifest["spec"]["runPolicy"]
        policy["cleanPodPolicy"] = rng.choice(("All", "Running", "None"))
        if is_elastic:
            # The least number is the `minCount` of the job's Workload.
            numbers = {"minReplicas": 1, "maxReplicas": 3, "shrinkAfterSeconds": 1, "growAfterSeconds": 2}
            manifest["spec"]["elasticPolicy"] = numbers
        else:
            policy["restartScope"] = rng.choice(("Job", "Replica"))
        if not is_elastic and rng.random() < 0.3:
            manifest["spec"]["enableDynamicWorker"] = True
            policy["schedulingPolicy"] = {"minAvailable": 1}
        queues.cluster.submit(manifest)
        self._jobs.append(name)

    def _kubelet(self) -> None:
        """Play nodes, for some pods at a time: each is bound, runs, ends; a pod that is deleted lingers a while."""
        pods = self._queues.cluster.pods()
        for name in self._rng.sample(sorted(pods), min(3, len(pods))):
            end = self._rng.choice(("Running", "Running", "Succeeded", "Failed"))
            play_node(self._queues.cluster, pods[name], end, finds_node=self._rng.random() < 0.8)

    def _some_job(self) -> Json | None:
        jobs = list(self._queues.client.list(TFJOBS, self._queues.namespace, decode).items)
        return self._rng.choice(jobs) if jobs else None

    def _edit(self, change: Json) -> None:
        job = self._some_job()
        if job is not None:
            self._queues.client.patch(TFJOBS, self._queues.namespace, job["metadata"]["name"], change, decode)

    def _suspend(self) -> None:
        self._edit({"spec": {"runPolicy": {"suspend": self._rng.random() < 0.5}}})

    def _scale(self) -> None:
        self._edit({"spec": {"tfReplicaSpecs": {"Worker": {"replicas": self._rng.randint(1, 3)}}}})

    def _reprice(self) -> None:
        self._edit({"metadata": {"labels": {PRIORITY_LABEL: self._rng.choice(("high", "low"))}}})

    def _change_policies(self) -> None:
        """Fields that may change at any time, and that no Workload has; some decide which replicas run again."""
        rng = self._rng
        run_policy = {
            "restartScope": rng.choice(("Job", "Job", "Replica")),
            "cleanPodPolicy": rng.choice(("All", "Running", "None")),
            "backoffLimit": rng.choice((6, 100)),
        }
        policy = rng.choice(("OnFailure", "ExitCode", "Never"))
        success = rng.choice(("AllWorkers", ""))
        worker = {"Worker": {"restartPolicy": policy}}
        self._edit({"spec": {"runPolicy": run_policy, "tfReplicaSpecs": worker, "successPolicy": success}})

    def _delete_job(self) -> None:
        job = self._some_job()
        if job is not None:
            where = (TFJOBS, self._queues.namespace, job["metadata"]["name"])
            self._queues.client.delete(*where, propagation_policy="Background")

    def _some_workload(self) -> str:
        workloads = list(self._queues.client.list(WORKLOADS, self._queues.namespace, decode).items)
        return str(self._rng.choice(workloads)["metadata"]["name"]) if workloads else ""

    def _delete_workload(self) -> None:
        if name := self._some_workload():
            self._queues.client.delete(WORKLOADS, self._queues.namespace, name)

    def _deactivate(self) -> None:
        if name := self._some_workload():
            self._queues.set_active(name, self._rng.random() < 0.5)

    def _drain(self) -> None:
        self._queues.set_stop_policy(self._queue, self._rng.choice(("HoldAndDrain", "None", "None")))

    def _kill(self, who: str) -> None:
        """Kill it; it starts again at once or some steps later."""
        if who in self._down:
            return
        self.kills[who] += 1
        self._down.add(who)
        victim = self._queues.kueue if who == "kueue" else self._queues.operator
        victim.kill()

        def start() -> None:
            self._down.discard(who)
            if who == "kueue":
                self._queues.kueue.start()
            else:
                self._queues.operator.start().wait_ready()

        self._later.append((self._step + self._rng.choice((0, 0, 3, 8)), start))

    # The end.

    def _rest(self) -> None:
        """Disturb the jobs no longer: all come to their end, and all quota is given back."""
        queues = self._queues
        queues.set_stop_policy(self._queue, "None")

        def at_rest() -> None:
            for workload in queues.client.list(WORKLOADS, queues.namespace, decode).items:
                if workload["spec"].get("active") is False:
                    with suppress(NotFoundError):  # it was being deleted
                        self._queues.set_active(workload["metadata"]["name"], True)
            jobs = list(queues.client.list(TFJOBS, queues.namespace, decode).items)
            for job in jobs:
                if job["spec"]["runPolicy"].get("suspend"):
                    change = {"spec": {"runPolicy": {"suspend": False}}}
                    queues.client.patch(TFJOBS, queues.namespace, job["metadata"]["name"], change, decode)
            pods = queues.cluster.pods()
            for pod in pods.values():
                play_node(queues.cluster, pod, "Succeeded")
            alive = [name for name, pod in pods.items() if pod["status"].get("phase") not in _ENDED]
            assert not alive, alive
            for job in jobs:
                status = job.get("status", {})
                assert true_conditions(status).keys() & set(_ENDED), (
                    job["metadata"]["name"],
                    status,
                    self._workload_of(job),
                )
            status = queues.client.get(CLUSTER_QUEUES, "", self._queue, decode)["status"]
            kept = [int(resource["total"]) for each in status["flavorsReservation"] for resource in each["resources"]]
            left = queues.client.list(WORKLOADS, queues.namespace, decode).items
            assert kept == [0], [
                (workload["metadata"]["name"], workload["metadata"].get("deletionTimestamp")) for workload in left
            ]

        try:
            eventually_holds(at_rest, within=REST_SECONDS, every=0.2, what="all jobs have ended")
        except AssertionError as error:
            self.judge.broken.append(f"not at rest: {error}")

    def _workload_of(self, job: Json) -> list[Json]:
        workloads = self._queues.client.list(WORKLOADS, self._queues.namespace, decode).items
        label, uid = JOB_UID_LABEL, job["metadata"]["uid"]
        return [
            workload.get("status") for workload in workloads if workload["metadata"].get("labels", {}).get(label) == uid
        ]


def is_probe(pod: Json) -> bool:
    """Whether the pod asks for room alone."""
    return ANNOTATION_PROBE in pod["metadata"].get("annotations", {})


def play_node(cluster: Cluster, pod: Json, end: str = "", *, finds_node: bool = True) -> None:
    """Do the next thing that a scheduler or a kubelet does with a pod, until its program comes to this end."""
    name = pod["metadata"]["name"]
    with suppress(KubeError):  # it is gone meanwhile
        if pod["metadata"].get("deletionTimestamp"):
            cluster.end_pod(name)
        elif not pod["spec"].get("nodeName") and finds_node:
            cluster.bind(name)
        elif not pod["spec"].get("nodeName"):
            refused = {"status": {"conditions": [unscheduled()]}}
            cluster.client.patch(PODS, cluster.namespace, name, refused, decode, subresource="status")
        elif is_probe(pod):
            return  # its kubelet waits for a ConfigMap that is never there
        elif pod["status"].get("phase") == "Pending":
            cluster.set_phase(name, "Running")
        elif pod["status"].get("phase") == "Running" and end in _ENDED:
            cluster.set_phase(name, end, exit_code=130 if end == "Failed" else 0)


def play(queues: Queues, seed: int) -> Plan:
    """A plan that has been played, in a namespace of its own."""
    queues.move_to(Cluster(queues.client, f"plan-{seed}"))
    plan = Plan(queues, seed)
    plan.play()
    return plan


def main() -> int:
    """Play plans one after the other in one cluster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first plan; the next has the next one")
    parser.add_argument("--mode", choices=["ours", "theirs"], default="ours")
    options = parser.parse_args()
    total, broken, most = Counter[str](), 0, 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, plans_cluster(Path(folder), options.mode) as queues:
        for seed in range(options.seed, options.seed + options.plans):
            plan = play(queues, seed)
            total.update(plan.judge.seen + plan.kills)
            total["jobs"] += plan.jobs
            most, broken = max(most, plan.judge.most), broken + bool(plan.judge.broken)
            if plan.judge.broken:
                print(*map(_in_words, plan.judge.versions), queues.operator.tail(100), sep="\n")
            verdict = "; ".join(plan.judge.broken[:3]) or "ok"
            print(
                f"{seed}: {dict(plan.judge.seen)} {dict(plan.kills)} at most {plan.judge.most} CPUs: {verdict}",
                flush=True,
            )
    print(f"{options.plans} plans, {broken} broken, at most {most} of {CPUS} CPUs, {dict(total)}, ", end="")
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if broken else 0


@contextmanager
def plans_cluster(folder: Path, mode: str, *flags: str, gangs: bool = False) -> Iterator[Queues]:
    """A cluster for plans: one priority above others, and Kueue waits for no pod to become ready."""
    with queues_of(folder, mode, *flags, gangs=gangs, waitForPodsReady=None) as queues:
        for name, value in (("low", 1), ("high", 1000)):
            queues.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
        # A garbage collector is slow to learn of new CRDs; from then on it lets the Workload of a deleted job go.
        job = queues.submit("first", queues.queue(1), Worker=1)
        queues.workload(job)
        job.delete()
        eventually(
            lambda: not queues.workloads(job), within=300, every=0.5, what="the garbage collector knows Workloads"
        )
        yield queues


if __name__ == "__main__":
    sys.exit(main())
