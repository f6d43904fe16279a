"""The Model Context Protocol: the server of tools, resources and prompts, and the questions that confirm changes."""
