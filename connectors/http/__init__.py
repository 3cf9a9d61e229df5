"""Servers that are asked and told over HTTP."""
