"""The cleanup after a run that was killed: its guardian process does it at once, or the next run reads its records."""
