"""Servers that are asked and told over HTTP, and a listener that others tell (`webhook`)."""
