"""Tools for people who work on tfoperator; nothing here is installed with the package."""
