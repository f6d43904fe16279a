"""The end of a pod: its meaning and cause, and the count and delay of the restart that follows."""
