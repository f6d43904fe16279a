"""The server certificate shared by all replicas, kept in a Secret, and renewed without a failed request."""
