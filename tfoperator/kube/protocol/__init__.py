"""What callers see of an API server: the verbs as protocols and values, their options and errors, and when to try
again. No I/O.
"""
