"""Why a job failed, stalled or took too long, on one page: facts in, a report out, the same text for every reader.

`make_report(facts)` is pure. The source of the facts (a local run, a cluster and its archive) fills in a `JobFacts`;
`report_lines(report)` makes the text for people, and `-o json` prints the report itself.
"""

from tfoperator.report.blame import FailedRun, first_failure, suspects
from tfoperator.report.curves import Curves, Point, number_of
from tfoperator.report.facts import (
    POD_GONE,
    TAIL_BYTES,
    TAIL_LINES,
    FinalState,
    JobFacts,
    ReplicaFacts,
    RunFacts,
    Typed,
)
from tfoperator.report.job import facts_of_job, facts_of_replica
from tfoperator.report.report import Failure, Others, Report, Restart, make_report
from tfoperator.report.text import headline, names_in_short, report_lines
from tfoperator.report.traceback_text import Frame, Traceback, last_traceback

__all__ = [
    "POD_GONE",
    "TAIL_BYTES",
    "TAIL_LINES",
    "Curves",
    "FailedRun",
    "Failure",
    "FinalState",
    "Frame",
    "JobFacts",
    "Others",
    "Point",
    "ReplicaFacts",
    "Report",
    "Restart",
    "RunFacts",
    "Traceback",
    "Typed",
    "facts_of_job",
    "facts_of_replica",
    "first_failure",
    "headline",
    "last_traceback",
    "make_report",
    "names_in_short",
    "number_of",
    "report_lines",
    "suspects",
]
