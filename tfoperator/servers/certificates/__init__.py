"""X.509 server certificates: made, read, watched in files and served."""
