"""The facts about a job that rules read, and the changes that a rule may propose."""
