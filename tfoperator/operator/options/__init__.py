"""The options of an administrator, and their sources: a flag, the environment, a YAML file, in this order."""
