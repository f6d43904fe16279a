"""The messages from and to an agent: the types of arguments and answers.

Two modules are pure: `harmless` makes texts from unknown authors safe for an agent, and `bounded` shortens an answer.
"""
