"""The replicas of a TFJob: the names of their objects, their templates and pods, and their processes' variables."""
