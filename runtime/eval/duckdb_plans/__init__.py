"""Parts of a batch plan as queries that DuckDB answers."""
