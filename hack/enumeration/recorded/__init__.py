"""What the operator did when plays were last recorded: a change of the code that makes it act otherwise is noticed.

The oracle judges by rules, and many ways to act are within them. Here each play's journal is compared with the one that
was recorded: every version of every object with its times, the events, and when each job was looked at.
"""
