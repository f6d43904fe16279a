"""Changes every field of a job in every state of its life, and compares the job with one that was created so."""
