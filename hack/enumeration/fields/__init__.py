"""Changes every field of a job in every state of its life, and compares it with a job created with the new spec."""
