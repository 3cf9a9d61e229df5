"""A running query checked against DuckDB: `SET 'sqlengine.verify' = 'true'`.

`texts` and `relations` say in DuckDB's SQL what a bound plan means, `reference` asks DuckDB, `rows` compares, `verifier`
watches a job. The same reference judges the engine's own tests.
"""
