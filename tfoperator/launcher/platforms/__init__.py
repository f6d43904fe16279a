"""The platforms of components: a package per platform, and `in_process` for classes.

The packages do not depend on each other. The package `tfjob` is the exception: TFJobs run as pods, so `tfjob` uses
`kubernetes`.
"""
