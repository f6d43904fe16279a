"""The replicas of a TFJob: names of their objects, their templates and pods, and environment variables of processes."""
