"""The connector `values`: rows written into the options of the table, for tests."""
