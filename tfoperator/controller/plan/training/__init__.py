"""The training itself: whether it makes progress, its loss, and what its time goes to."""
