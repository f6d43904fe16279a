"""The Model Context Protocol: the server of tools, resources and prompts, which also asks a user to confirm a change."""
