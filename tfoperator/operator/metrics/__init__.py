"""The metrics at `/metrics`: one registry per operator; optional parts are imported only where needed."""
