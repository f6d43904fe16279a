"""The HTTP side of the server: connections, paths, bodies, watches and logs.

`Api` gets each request first and passes those for resources to `ResourceRequests`. Other packages have the rules
for writes, storage and encoding. All of it runs in the server's event loop, except the readers of logs.
"""
