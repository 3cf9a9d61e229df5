"""Notebooks: `%sql` and tables that follow their query."""
