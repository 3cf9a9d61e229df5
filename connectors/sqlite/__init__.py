"""SQLite: tables of a file as sources, sinks, lookup tables and catalogs."""
