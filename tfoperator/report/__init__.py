"""Shows on one page why a job failed, stalled or took too long.

It makes a report from facts, and the text is the same for every reader. `make_report(facts)` is pure. The source of the
facts is a local run, or a cluster and its archive. The source fills in a `JobFacts`. `report_lines(report)` makes the
text for people, and `-o json` prints the report itself.
"""
