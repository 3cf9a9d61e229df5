"""The path language of SQL/JSON, as PostgreSQL has it in `jsonb_path_query` and `@?`."""
