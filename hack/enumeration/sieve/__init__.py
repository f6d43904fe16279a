"""Plays every scenario with one fault at every place: Sieve's three patterns, and two more, without a gap."""
