"""The input and the output of `plan()`: the observed state, the actions, and the conditions."""
