"""A listener that others send rows to over HTTP, and the journal that they wait in."""
