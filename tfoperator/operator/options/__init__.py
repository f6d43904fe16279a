"""The administrator's options and their sources: a flag, the environment, a YAML file. A flag comes first."""
