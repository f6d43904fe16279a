"""The values at both ends of a plan: what is observed, the actions, and the conditions."""
