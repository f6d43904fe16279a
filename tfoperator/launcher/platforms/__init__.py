"""The platforms of components: a package per platform, and `in_process` for classes. They are independent.

TFJobs are the exception: they are pods, too, so `tfjob` builds on `kubernetes`.
"""
