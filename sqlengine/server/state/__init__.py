"""The state server: rows of tables and views, and the state of jobs, by key, over Arrow Flight."""
