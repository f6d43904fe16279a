"""Collects the facts for `tfoperator.report` from a cluster and its log archive.

The facts show why a job failed, and which replica failed first.
"""
