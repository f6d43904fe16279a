"""Streams, formats, signals, errors and exit codes of commands."""
