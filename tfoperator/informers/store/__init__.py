"""The cache of an informer: objects by key and by index, and how they are read."""
