"""The logs of containers.

The package has code that reads logs line by line, code that keeps them as files, and the stacks that processes print
into them.
"""
