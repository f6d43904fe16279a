"""The platforms of components: a package or module per platform, and `in_process` for classes.

The platforms do not depend on each other, with one exception: TFJobs run as pods, so `tfjob` uses `kubernetes`. The
module `stopping` stops the containers of killed launchers.
"""
