"""HTTP/1.1 to an API server: `verbs` and `watch` return typed results, over requests with retries and connections."""
