"""Where a component can run: a package per platform, and `in_process` for classes. They don't know each other.

TFJobs are the exception: they are pods, too, so `tfjob` builds on `kubernetes`.
"""
