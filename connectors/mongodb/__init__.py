"""Collections of MongoDB: written by key, looked up, and read."""
