"""HTTP/1.1 to an API server: connections, requests with retries, and typed results (in the modules `verbs` and `watch`)."""
