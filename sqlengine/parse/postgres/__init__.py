"""PostgreSQL's dialect: another reader of the language, and no other language.

A text is read with PostgreSQL's words, names and precedences (`lexer`, `grammar`), and what means something else there is
written in the tree as what it means here (`meanings`, `output_names`): NULLS LAST where nothing is said, `PG_SUM(x)` for
`SUM(x)`. So behind the parser nothing knows of dialects: the tree of a view written back is Flink SQL, plans and
checkpoints are the same. Functions whose meaning depends on types begin with `PG_`; `sqlengine/bind/postgres.py` binds them.
"""
