"""Why a job failed, stalled or took too long, on one page: facts in, a report out, the same text for every reader.

`make_report(facts)` is pure. The source of the facts (a local run, a cluster and its archive) fills in a `JobFacts`;
`report_lines(report)` makes the text for people, and `-o json` prints the report itself.
"""
