"""HTTP/1.1 to an API server: sockets, connections, and requests with retries."""
