"""A divided execution: which operators run in which tasks, what is sent to them, and versions of their state."""
