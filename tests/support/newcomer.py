"""A program with one condition more: the row that a newcomer adds, and what the program makes of it.

tests/unit/api/v1/test_condition_types.py runs it. It is a process of its own, for the table of conditions is read once,
when it is imported.
"""

import sys
import types
from pathlib import Path

TABLE = "tfoperator.api.v1.condition_types"
ROW = '    HUNGRY = ("Hungry", ConditionTraits(meaning="while no data comes"))\n'
END_OF_TABLE = "\n\nPEER_CONDITIONS = "


def add_the_row() -> None:
    """Have the process import the table with the row."""
    source = Path(sys.argv[1]).read_text()
    assert source.count(END_OF_TABLE) == 1
    module = types.ModuleType(TABLE)
    sys.modules[TABLE] = module
    exec(compile(source.replace(END_OF_TABLE, ROW + END_OF_TABLE), sys.argv[1], "exec"), module.__dict__)  # noqa: S102


def check() -> None:
    """Have a job with the condition live each kind of life."""
    import msgspec

    from hack import generate
    from hack.faults.oracle.clients import RULES, misled_clients
    from tests.unit.controller.builders import after, make_job, make_pod, planned, started, with_status
    from tfoperator.api.schema.crd import crd_yaml
    from tfoperator.api.v1.condition_types import ConditionType
    from tfoperator.api.v1.status import JobCondition, TFJobStatus, all_conditions, find_condition
    from tfoperator.api.v1.types import TFJob
    from tfoperator.local.run.ending import DIED, RunEnd, ended_status
    from tfoperator.sdk.waiting import checked_conditions

    hungry = JobCondition("Hungry", "True", "NoData", "no data", after(1), after(1))

    def hungry_job(job: TFJob) -> TFJob:
        before = started(job)
        running = planned(before, make_pod("Worker-0")).status
        own = (*running.operator_conditions, hungry)
        return with_status(before, msgspec.structs.replace(running, operator_conditions=own))

    def status_of(status: TFJobStatus) -> str:
        condition = find_condition(all_conditions(status), "Hungry")
        return "" if condition is None else condition.status

    job = hungry_job(make_job({"Worker": 1}))
    assert job.state.word == "Running", job.state
    running = planned(job, make_pod("Worker-0"), now=after(1)).status
    assert status_of(running) == "True"
    assert find_condition(running.conditions, "Hungry") is None, "foreign clients look there"
    read = msgspec.to_builtins(running)
    without = {name: value for name, value in read.items() if name != "operatorConditions"}
    for client, rule in RULES.items():
        assert rule(read) == rule(without), client
    misplaced = {**read, "conditions": [*read["conditions"], msgspec.to_builtins(hungry)]}
    assert list(misled_clients(read["conditions"], misplaced)), "the oracle would notice it among the others"

    succeeded = planned(job, make_pod("Worker-0", "Succeeded", exit_code=0), now=after(2)).status
    assert (succeeded.conditions[-1].type, status_of(succeeded)) == ("Succeeded", "False")
    failed = planned(job, make_pod("Worker-0", "Failed", exit_code=1), now=after(2)).status
    assert (failed.conditions[-1].type, status_of(failed)) == ("Failed", "False")
    suspended = with_status(make_job({"Worker": 1}, runPolicy={"suspend": True}), job.status)
    assert status_of(planned(suspended, make_pod("Worker-0"), now=after(2)).status) == "False"
    invalid = planned(job, make_pod("Worker-0"), problems=("spec: makes no sense",), now=after(2)).status
    assert status_of(invalid) == "Unknown"
    assert status_of(ended_status(job, RunEnd(DIED, after(3)))) == "False"

    assert checked_conditions("hungry") == {ConditionType("Hungry")}, "tfoperator wait --for=hungry"
    assert "Admitted or Hungry" in crd_yaml()
    stale = [path.name for path, text in generate.generated().items() if path.read_text() != text]
    assert "conditions.md" in stale, "python hack/generate.py writes the row in the docs"


add_the_row()
check()
