"""All decisions about a job, as pure functions of values; they use no clock, no client and no log.

`plan()` takes an `Observed` and returns a `Plan`: phases of actions, the status, events, and when to look again. Read
`decide.py` first: it follows the life of a job.

Each module or subpackage has one subject. It imports only from lower lines of this table. Subpackages on the same line
don't import each other:

    decide                                                 the life of a job: which rules hold in which stage
    combine | look                                         which proposals win, and how the facts are found
    status                                                 the status, and what people read in it
    restarts | training | elastic | objects | verdicts     the rules, by subject
    facts                                                  what rules read, and what they may propose
    replicas                                               replicas, as their pods show them
    pod_ends                                               the meaning of a pod's end
    values                                                 what is observed, and the actions of a plan
"""
