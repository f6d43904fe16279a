"""The phases of a plan: first its steps and the faults, and then the time without faults until all is at rest."""
