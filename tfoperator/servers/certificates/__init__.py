"""X.509 server certificates: making them, reading them, watching their files, and serving with them."""
