"""What does `tfoperator run` show? Lines of containers, what happens to replicas, and the last words."""
