"""Changes of a table of PostgreSQL: its rows as they are, then what its log says, by logical replication.

options     what a table says in WITH
setup       the table, its publication and its slot: looked at, and made where they are missing
snapshot    the rows as they are, in the order of the key
stream      messages of a slot, by the replication protocol
pgoutput    messages to columns
changes     columns to changes
cells       texts of PostgreSQL as values
positions   where reading is, and which transactions a snapshot has seen
reader      the two parts one after the other
table       the connector `postgres-cdc`
"""
