"""Changes one place of what the plan decides at a time, and asks whether the enumerations notice."""
