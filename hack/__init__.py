"""Tools for people who work on tfoperator; they are not installed with the package."""
