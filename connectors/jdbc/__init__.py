"""Flink's connector `jdbc`: the URL says which database, and that database's own connector does the work."""
