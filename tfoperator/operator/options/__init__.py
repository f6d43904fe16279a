"""The administrator's options and their sources: a flag, the environment, a YAML file.

If several sources set an option, the flag wins over the environment, and the environment over the file.
"""
