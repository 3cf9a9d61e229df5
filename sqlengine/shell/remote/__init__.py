"""The shell on a server: `sqlengine shell postgresql://host:5433/default_catalog`.

executor ── statements ──> connection ── protocol of PostgreSQL ──> the server
   │                          │
   │                       answers: columns, rows as texts, the tag, or an error with its place
   └── the prompt, tables and commands of the shell, as for a database of its own
"""
