"""The facts about a job that rules read, and the things that a rule may want."""
