"""The HTTP server for the operator's endpoints, for its webhook, and for the page of `tfoperator ui`.

Any client in the network can connect to the server. So the server limits the connections and bytes of clients.
"""
