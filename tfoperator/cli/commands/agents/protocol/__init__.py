"""The Model Context Protocol: the server of tools, resources and prompts, and its questions whether a user confirms a change."""
