"""The operator's acts when plays were last recorded: notices changes of the code that make it act otherwise.

The oracle judges by rules, and many ways to act are within them. Here each play's journal is compared with its recorded
journal: every version of every object with its times, the events, and when each job was looked at.
"""
