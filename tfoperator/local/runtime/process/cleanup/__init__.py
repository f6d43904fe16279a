"""The cleanup after a run that was killed.

The guardian process of the killed run cleans up at once. If the guardian was killed too, the next run reads the records
of the killed run and cleans up.
"""
