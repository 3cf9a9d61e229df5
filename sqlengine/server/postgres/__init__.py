"""PostgreSQL's wire protocol, version 3, for the clients that people have.

Source: PostgreSQL 15, "Frontend/Backend Protocol". `messages` knows bytes, `types` and the encoders know values,
`connection` knows the order of messages, `plans` says who answers a statement: the engine, the catalogue, or the
connection itself.
"""
