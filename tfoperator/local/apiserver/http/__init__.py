"""The HTTP side of the server: connections, paths, bodies, watches and logs.

`Api` gets each request first, and passes requests for resources to `ResourceRequests`. The rules for writes, the
storage and the encoding are in other packages. All of this code runs in the server's event loop, except the readers of
logs.
"""
