"""The replicas of a TFJob: the names of their objects, their templates and pods, and what their processes get."""
