"""The connector `duckdb`: the tables of a DuckDB database file, to be read and looked up; and a catalog of them all."""
