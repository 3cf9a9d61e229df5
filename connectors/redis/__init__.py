"""Redis: hashes by key, and streams."""
