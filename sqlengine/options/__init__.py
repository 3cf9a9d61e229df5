"""The options of SET and of tables: what they mean, and which values they take."""
