"""A call that fails at first."""


class FailsAtFirst:
    """Raises each of these errors once, in their order. Later calls return "done"."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "done"
