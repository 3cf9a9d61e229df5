"""The folder of a database that lasts: its log, its checkpoints, and who owns it."""
