"""What SQL databases have in common, so that the room of each has only what is its own.

options   of tables: name, ranges to read by, delivery
table     a table as source, sink and lookup table
fitting   columns of the database as the declared types, with errors that name the column
newest    the last change of each key, for upserts
writing   rows of each epoch in a transaction of its own
foreign   catalogs
"""
