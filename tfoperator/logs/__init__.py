"""Logs of containers: read line by line, kept as files; and the stacks that processes print into them."""
