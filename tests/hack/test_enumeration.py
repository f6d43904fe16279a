"""The enumeration itself: a world is the same each time, faults come to their places, their effects are reported."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from hack.enumeration import cli
from hack.enumeration.fields.changes import V1, V1ALPHA2, Edit, NoValue, Subject, changes, fields, whole
from hack.enumeration.fields.contrast import Contrast
from hack.enumeration.fields.lives import GANG, Changed, Life, Outcome, change
from hack.enumeration.fields.peer import common_subject
from hack.enumeration.fields.table import GOOD, Tried, table
from hack.enumeration.real.plane import jobs_beside
from hack.enumeration.recorded import __main__ as recorded
from hack.enumeration.recorded.plays import Play, Seen, is_chosen, plays
from hack.enumeration.recorded.records import RECORDS, Records, differing, records_of
from hack.enumeration.seeds import compare
from hack.enumeration.sieve.points import GROUPS, points, thinned
from hack.enumeration.sieve.runner import Results, find, play, record
from hack.enumeration.states.explore import counterexamples, expand, explore, play_path
from hack.enumeration.states.living import Setting
from hack.enumeration.world.clock import VirtualClock
from hack.enumeration.world.fault import NO_FAULT, Fault, How
from hack.enumeration.world.operator import ToldClient
from hack.enumeration.world.server import SimulatedServer
from hack.enumeration.world.world import World
from hack.faults.plan.steps import JobShape
from tests.support.argo_health import HealthCheck
from tfoperator.controller.kueue import lag
from tfoperator.controller.kueue.left import WorkloadsLeft
from tfoperator.controller.ledger import cache_lag, memory
from tfoperator.controller.plan import combine
from tfoperator.controller.plan.facts.proposal import StatusPart
from tfoperator.controller.plan.pod_ends import restart
from tfoperator.controller.plan.status import reporting
from tfoperator.informers import InformerGroup
from tfoperator.kube.protocol.errors import AlreadyExistsError
from tfoperator.kube.protocol.resources import SERVICES
from tfoperator.kube.views.objects import decode_partial

SMALL, LATE_POD = find("one worker"), Fault(How.LATE_EVENT, kind="Pod", revision=5)
QUEUED = "a job in a queue succeeds"

IMAGE = "spec.tfReplicaSpecs.Worker.template.spec.containers[0].image"

SET_ORDER = """
from types import SimpleNamespace
from tfoperator.reconciler import schedule
schedule.heapq = SimpleNamespace(nsmallest=lambda limit, late, key: list(late)[:limit])
"""


@pytest.mark.parametrize("mutation", ["", SET_ORDER])
def test_a_seed_means_the_same_in_each_process_unless_the_order_of_a_set_decides(mutation: str) -> None:
    lines: list[str] = []
    program = (sys.executable, "-c", f"{mutation}\nfrom hack.enumeration.cli import main\nmain()")
    assert compare(4, lines.append, program) == (not mutation)
    assert any(line.endswith("two journals") for line in lines) == bool(mutation)


@pytest.mark.timeout(900)  # minutes of CPU time, on a machine that does other work
def test_every_play_keeps_the_rules_and_is_as_it_was_recorded() -> None:
    check = HealthCheck()
    assert differing(RECORDS.read(), records_of(plays(), check.expect)) == []
    assert check.given == {"Suspended", "Progressing", "Healthy", "Degraded"}


def test_a_play_that_differs_from_its_record_is_shown_beside_that_of_a_commit_until_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records, seen = Records(tmp_path / "recorded.txt"), [Seen("", ["something else"])]
    records.write(records_of(recorded_play for recorded_play in plays() if recorded_play.name == SMALL.name))
    monkeypatch.setattr(recorded, "RECORDS", records)
    monkeypatch.setattr(recorded, "plays", lambda: [Play(SMALL.name, lambda: iter(seen))])
    assert recorded.main([]) == 1
    output = capsys.readouterr().out
    assert "\n+something else\n" in output
    assert "\n-ADDED Pod job-0-worker-0 " in output
    assert recorded.main(["--accept"]) == recorded.main([]) == 0
    seen.append(Seen("never: it runs twice", []))
    assert recorded.main(["--accept"]) == 1


def test_replicas_that_gave_their_quota_back_have_it_again_before_they_start_again() -> None:
    scenario = find("restart of the whole job after some pods gave quota back")
    there, tried = record(scenario, share=1, old_lists=1, deletions=1)
    changed = [fault for fault in there.points if fault.how is How.CHANGED_SCOPE]
    assert len(changed) == there.writes
    every = [tried, *(play(scenario, fault) for fault in changed)]
    assert [(result.fault, result.violations) for result in every if result.violations or not result.reached] == []


def test_every_point_of_a_small_scenario_is_reached_and_none_is_violated_and_a_quick_run_has_some_of_each() -> None:
    recorded = World(SMALL).play()
    every = points(recorded)
    assert len(set(every)) == len(every)
    assert {fault.how for fault in every} == set(GROUPS) - {How.DELETED_JOB, How.CHANGED_SCOPE}
    assert {fault.at for fault in every if fault.how is How.CRASH_AFTER} == set(range(1, len(recorded.writes) + 1))
    assert {(fault.kind, fault.revision) for fault in every if fault.how is How.LOST_EVENT} == set(recorded.events)
    few = thinned(every, lambda _: 4)
    assert len(few) < len(every)
    assert {fault.how for fault in few} == set(GROUPS) - {How.DELETED_JOB, How.CHANGED_SCOPE}
    tried = [play(SMALL, fault) for fault in every]
    assert [(result.fault, result.violations) for result in tried if result.violations or not result.reached] == []


@pytest.mark.parametrize(
    ("name", "fault", "part", "text"),
    [
        (
            "PS and workers",
            Fault(How.OLD_LIST, 12, "Pod", 12),
            "deciding_pods",
            "Worker-1 counts 2 restarts, there were at most",
        ),
        (
            "whole-job restart",
            Fault(How.OLD_LIST, 10, "Pod", 4),
            "created_pods, _unseen_pods",
            "ps-0 of restart 1 was made beside",
        ),
        (
            "elastic job without room, then scaled",
            Fault(How.OLD_LIST, 9, "Pod", 5),
            "_unseen_pods",
            "pod job-0-worker-0 of restart 1 was made beside",
        ),
        ("OnFailure", Fault(How.OLD_LIST, 8, "Pod", 8), "differs", "Worker-0 counts 3 restarts, there were at most 2"),
        (
            "preempted, restart of the whole job",
            Fault(How.OLD_LIST, 26, "Pod", 25),
            "deciding_pods",
            "-1 had completed",
        ),
        ("a sidecar in a queue", Fault(How.OLD_LIST, 12, "Pod", 12), "verify_pods", "quota is overdrawn"),
        (QUEUED, Fault(How.OLD_LIST, 6, "Workload", 4), "verify_workloads", "ps-0 (Pending) was deleted without a"),
        ("moved to another queue", Fault(How.OLD_LIST, 19, "TFJob", 14), "verify_job", "was deleted without a reason"),
        ("suspended in its queue", Fault(How.LOST_EVENT, 0, "Workload", 23), "written", "no Workload of its job is ad"),
        (QUEUED, Fault(How.LOST_EVENT, 0, "ResourceFlavor", 3), "missing_flavors", "PS-0 has no service"),
        (QUEUED, Fault(How.LOST_EVENT, 0, "Workload", 7), "relist", "PS-0 has no service"),
    ],
)
def test_a_fault_deceives_an_operator_that_does_not_ask_and_is_told_with_its_history(
    name: str, fault: Fault, part: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(find(name), fault).violations == ()
    owners = (cache_lag, cache_lag.CacheLag, lag, lag.WorkloadLag, InformerGroup)
    for lookup in part.split(", "):
        (who,) = (owner for owner in owners if hasattr(owner, lookup))
        monkeypatch.setattr(who, lookup, lambda *_, **__: ())
    assert text in play(find(name), fault).violations[0]
    point = msgspec.json.encode(fault).decode()
    assert cli.main(["--scenario", name, "--point", point]) == 1
    assert text in capsys.readouterr().out


def test_a_job_is_deleted_after_each_change_with_its_events_in_every_order_and_nothing_is_left() -> None:
    there, _ = record(find("deleted while it waits for quota"), share=1, old_lists=1, deletions=1)
    every = [fault for fault in there.points if fault.how is How.DELETED_JOB]
    assert {fault.policy for fault in every} == {"", "Foreground", "Orphan"}
    late = {fault.late_kinds for fault in every}
    assert late == {(), ("TFJob",), ("Workload",)}, "there are no pods"
    assert {fault.again for fault in every} == {False, True}
    tried = [play(find(there.scenario), fault) for fault in every]
    assert [(result.fault, result.violations) for result in tried if result.violations or not result.reached] == []


@pytest.mark.parametrize(
    ("fault", "part", "text"),
    [
        (Fault(How.DELETED_JOB, 2, "Workload", 12), "watch_pods", "of a deleted job is left 1"),
        (Fault(How.DELETED_JOB, revision=5, policy="Orphan"), "forget", "the operator remembers a deleted job"),
    ],
)
def test_what_a_deleted_job_leaves_is_noticed(
    fault: Fault, part: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = find("its Workload is deleted")
    assert play(scenario, fault).violations == ()
    [who] = (owner for owner in (WorkloadsLeft, lag.WorkloadLag) if hasattr(owner, part))
    monkeypatch.setattr(who, part, lambda *_: None)
    assert text in "".join(play(scenario, fault).violations)


KEPT_POD = Fault(How.DELETED_JOB, revision=13, policy="Orphan")


def test_a_later_job_gets_its_pod_when_the_user_deletes_the_pod_that_its_status_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = find("deleted with quota, and created again")
    assert play(scenario, KEPT_POD).violations == ()
    monkeypatch.setattr(memory.JobMemory, "note_not_created", lambda *_: None)
    assert "lost: job-0: Worker-0 has no pod" in play(scenario, KEPT_POD).violations


def test_a_process_must_not_create_its_object_again_for_the_same_owner() -> None:
    noticed: list[str] = []
    server = SimulatedServer(VirtualClock())
    server.create_namespace("ns")
    client = ToldClient(server, lambda: None, lambda: None, noticed.append)
    create_service(client, owner="first")
    with pytest.raises(AlreadyExistsError):
        create_service(client, owner="first")
    assert noticed == ["Service worker-0 was asked for again by the process that had made it"]
    client.patch(SERVICES, "ns", "worker-0", {"metadata": {"ownerReferences": None}}, decode_partial)
    with pytest.raises(AlreadyExistsError):
        create_service(client, owner="second")
    assert len(noticed) == 1, "the first job was deleted without its objects"
    with pytest.raises(AlreadyExistsError):
        create_service(client, owner="first")
    assert len(noticed) == 2, "somebody took the owner from the object of a job that is still there"


def create_service(client: ToldClient, *, owner: str) -> None:
    owners = [{"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job-0", "uid": owner, "controller": True}]
    metadata = {"name": "worker-0", "ownerReferences": owners}
    body = {"metadata": metadata, "spec": {"clusterIP": "None", "ports": [{"port": 2222}]}}
    client.create(SERVICES, "ns", body, decode_partial)


def test_what_is_asked_for_twice_or_is_not_told_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = (
        (combine, "_is_awaited", False, LATE_POD, "asked for again"),
        (reporting, "event", StatusPart({}), NO_FAULT, "untold"),
    )
    for module, function, result, fault, noticed in ways:
        monkeypatch.setattr(module, function, lambda *_, result=result: result)
        assert any(noticed in violation for violation in play(SMALL, fault).violations)


def test_a_restart_in_place_that_is_not_told_of_or_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, report = find("restarts in place"), reporting.report_restarts_in_place
    assert play(scenario, NO_FAULT).violations == ()
    for times, noticed in (
        (0, "in place, and no event reports this"),
        (2, "2 events report the same restart"),
    ):
        monkeypatch.setattr(
            reporting,
            "report_restarts_in_place",
            lambda *of, times=times: [want for _ in range(times) for want in report(*of)],
        )
        assert any(noticed in violation for violation in play(scenario, NO_FAULT).violations)


def test_every_state_of_a_job_is_tried_and_a_wrong_rule_is_told_by_the_shortest_path_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calm = Setting("calm", JobShape("job-0", {"PS": 1, "Worker": 1}, "ExitCode"), 0)
    with ThreadPoolExecutor(1) as pool:
        exploration = explore(calm, pool, seconds=600, say=lambda _: None)
    assert (exploration.states, exploration.longest, exploration.left, counterexamples(exploration)) == (10, 4, 0, [])
    setting = Setting("one", JobShape("job-0", {"Worker": 1}, "ExitCode"), 1)
    path = ("job-0-worker-0 runs", "job-0-worker-0 fails with 137")
    assert play_path(setting, path) == []
    monkeypatch.setattr(restart, "FIRST_RETRYABLE_EXIT_CODE", 200)
    exploration.violations = {(*path[:1], move): why for move, why in expand(setting, path[:1]).violations.items()}
    assert counterexamples(exploration)[1:-1] == [f"  {move}" for move in path]
    assert play_path(setting, path) != []


def test_every_field_is_changed_and_a_change_that_nothing_tells_of_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    field = "spec.clusterArguments"
    edits = list(changes())
    assert {name for name, _, _ in edits} ^ set(fields()) == set()
    assert {field, "spec.tensorBoard.env[0].name"} - set(fields()) == set()
    specs = {how: spec for name, how, spec in edits if name == field}
    results = [change(field, specs[how], Life.RUNNING) for how in (Edit.TYPE, Edit.OTHER)]
    assert [result.outcome for result in results] == [Outcome.NAMED, Outcome.SAID]
    assert results[1].left == ()
    assert change(field, specs[Edit.OTHER], Life.SUSPENDED).outcome is Outcome.SAME
    monkeypatch.setattr(memory, "_edited_templates", lambda *_: ())
    silent = Tried(field, Edit.OTHER, Life.RUNNING, change(field, specs[Edit.OTHER], Life.RUNNING))
    assert silent.changed.outcome not in GOOD
    assert ".Pod job-0-ps-0.spec.containers[0].args" in str(silent)
    assert table([silent]).splitlines()[2] == "| running | 1 | 0 | 0 | 0 | 0 | 0 | 1 | 0 | 0 |"


def test_a_new_field_has_a_calm_value_or_is_named_with_the_table_that_needs_an_entry() -> None:
    new = {"type": "object", "properties": {"seconds": {"type": "integer", "minimum": 1}, "on": {"type": "boolean"}}}
    choice = {"type": "string", "enum": ["", "Report", "Fail"]}
    schema = {"properties": {**V1.schema["properties"], "example": new, "choice": choice}}
    spec = whole(V1.spec, schema)
    assert spec == {**V1.spec, "example": {"seconds": 3600, "on": False}, "choice": "Report"}
    with pytest.raises(
        NoValue, match=r"^spec\.free needs a valid value: write it into _CHOSEN of .*/fields/changes\.py$"
    ):
        whole(V1.spec, {"properties": {"free": {"type": "string"}}})
    share = {"properties": {"share": {"type": "number"}}}
    with pytest.raises(NoValue, match=r"^spec\.share needs .* type number: write it into _ZERO and _WRONG_TYPE of "):
        list(changes(Subject("v1", {"share": 0.5}, share, {})))


def test_about_one_in_so_many_plays_is_chosen_and_it_depends_on_nothing_but_its_name() -> None:
    names = [f"running, spec.field{number}: away" for number in range(2900)]
    chosen = [name for name in names if is_chosen(name, 29)]
    assert 70 < len(chosen) < 130
    assert chosen[0] == "running, spec.field6: away"  # in every process, and on every Python


def test_every_field_of_v1alpha2_is_changed_through_it_and_refused_by_its_own_name() -> None:
    field, edits = "spec.ttlSecondsAfterFinishing", list(changes(V1ALPHA2))
    assert {name for name, _, _ in edits} ^ set(fields(V1ALPHA2)) == set()
    assert {field, "spec.runPolicy.managedBy"} - set(fields(V1ALPHA2)) == set()
    results = {how: change(field, spec, Life.SUCCEEDED, V1ALPHA2) for name, how, spec in edits if name == field}
    assert results[Edit.OUTSIDE].outcome is Outcome.NAMED
    assert field in results[Edit.OUTSIDE].said[0]
    assert results[Edit.OTHER] == Changed(Outcome.SAME)
    assert results[Edit.ZERO].left != ()  # the job is deleted, and can't be corrected


@pytest.mark.controlplane
def test_the_go_operator_is_changed_on_a_real_server_and_looked_at_as_this_one_is() -> None:
    wanted = {("spec.runPolicy.managedBy", Edit.AWAY), (IMAGE, Edit.OTHER), ("spec.runPolicy.suspend", Edit.TYPE)}
    chosen = [edit for edit in changes(common_subject()) if edit[:2] in wanted]
    with jobs_beside("go", GANG) as jobs:
        results = {contrast.field: contrast.changed for contrast in Contrast(jobs, print).live(Life.CREATED, chosen)}
    assert results["spec.runPolicy.managedBy"].outcome is results["spec.runPolicy.suspend"].outcome is Outcome.NAMED
    assert "admission webhook" in results["spec.runPolicy.managedBy"].said[0]  # it is registered as by its manifests
    assert (results[IMAGE].outcome, results[IMAGE].left) == (Outcome.SILENT, ())
    assert ".Pod job-0-worker-0.spec.containers[0].image" in results[IMAGE].differs


def test_results_are_continued_by_the_same_code_alone(tmp_path: Path) -> None:
    path, tried = tmp_path / "results.jsonl", play(SMALL, Fault(How.CRASH_AFTER, 1))
    Results(path, "code").add([tried])
    with path.open("ab") as file:
        file.write(b'{"scenario": "one wor')  # the run was interrupted
    assert Results(path, "code").tried == {(SMALL.name, tried.fault): tried}
    assert Results(path, "other code").tried == {}
