"""The HTTP server of the operator's endpoints, its webhook and the page; any client can reach it."""
