"""PostgreSQL: its address, its client, its types, and its tables as sources, sinks, lookup tables and catalogs."""
