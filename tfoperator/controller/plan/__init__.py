"""All decisions about a job, as pure functions over values, without a clock, a client or a log.

`plan()` takes an `Observed` and returns a `Plan`: phases of actions, the status, events, and when to look again. Read
`decide.py` first; it follows the life of a job, and calls the other files in that order.
"""
