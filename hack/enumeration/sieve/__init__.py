"""Plays every scenario with one fault at every place: the three fault patterns of Sieve, and further patterns."""
