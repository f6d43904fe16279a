"""Makes a report on a job: why it failed, stalled or took too long.

The caller collects facts (`JobFacts`) about a job of a local run, or of a cluster with its archive of logs.
`make_report(facts)` computes the report, and `report_lines(report)` makes the text for people. Both are pure.
`tfoperator report -o json` prints the report itself.
"""
