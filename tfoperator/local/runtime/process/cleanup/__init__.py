"""The cleanup after a run that was killed: a guardian process does it at once, or the next run does it from records."""
