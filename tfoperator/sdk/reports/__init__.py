"""Collects the facts for `tfoperator.report` from a cluster and its log archive.

They show why a job failed, and which replica failed first.
"""
