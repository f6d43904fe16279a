"""The server certificate that all replicas share. It is kept in a Secret, and is renewed without a failed request."""
