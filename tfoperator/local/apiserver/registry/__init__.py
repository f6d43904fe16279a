"""Writes: create, update, patch, delete, scale, bind and evict. Also the garbage collection of objects whose owners are
gone.

`Registry` runs kube-apiserver's checks in the same order for every kind. The differences between kinds are in the
strategies of `objects`. Use it only in the server's event loop.
"""
