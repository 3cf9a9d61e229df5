"""Connections on which others send rows as they come, and keep none: sockets and WebSockets, at most once."""
