"""Connections to one server: sockets, TLS, proxies, and the bytes of requests and responses."""
