"""Formats: bytes to columns and back, block by block. A format knows nothing of where its bytes come from."""
