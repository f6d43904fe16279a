"""How does a command talk to whoever started it? Streams, formats, signals, errors and exit codes."""
