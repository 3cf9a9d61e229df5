"""Changes of tables of MySQL or MariaDB: their rows as they are, then what its binary log says.

options       what a table says in WITH
positions     where reading is
setup         the server and the table: looked at before anything is read
snapshot      the rows as they are, in the order of the key
log           events of the log, by the protocol of replication
events        what an event says
gtids         sets of transactions
rows          events with rows to cells
cells         cells to values
tables        a table in the log: its shape, and its changes
transactions  changes of all tables gather here
reader        the two parts one after the other
table         the connector `mysql-cdc`
"""
