"""Functions with OVER: calls evaluated over frames of sorted rows."""
