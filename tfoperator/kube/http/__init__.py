"""HTTP/1.1 to an API server: connections, requests with retries, and typed results (modules `verbs`, `watch`)."""
