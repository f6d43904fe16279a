"""The Model Context Protocol: the server of tools, resources and prompts. It also asks a user to confirm a change."""
