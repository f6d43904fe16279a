"""The phases of a plan: its steps while faults are injected, and coming to rest when none is any more."""
