"""The HTTP server for the operator's endpoints, for its webhook and for the page.

Any client can connect to it, so it limits clients.
"""
