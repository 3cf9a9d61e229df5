"""Files as tables: CSV, JSON lines, Parquet and change logs in JSON, in a file, a folder, a pattern, or a folder that
is watched."""
