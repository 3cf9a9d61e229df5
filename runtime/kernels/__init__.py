"""Vectorised data structures for streaming state: numpy and Arrow columns in, numpy and Arrow columns out, no SQL."""
