"""The output of `tfoperator run`: lines of containers, changes of replicas, and the summary."""
