"""What every other package may use, and what uses none of them: time, text and numbers."""
