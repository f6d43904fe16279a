"""Basic utilities for time, text and numbers: other packages use this package, and it imports none of them."""
