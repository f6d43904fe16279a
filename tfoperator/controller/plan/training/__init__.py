"""The training itself: whether it makes progress, its loss, and how the job spends its time."""
