"""Writes: create, update, patch, delete, scale, bind, evict, and the garbage collection of objects without an owner.

`Registry` applies kube-apiserver's order of checks to every kind; differences between kinds are in the strategies of
`objects`. Confined to the server's event loop.
"""
