"""The connector `iceberg`: tables of Apache Iceberg, by their catalog, and a catalog of them.

options      options, and where a table is: nothing here loads the library
table        the connector
names        the catalog of an environment
library      the catalogs of pyiceberg, and its errors as ours
folder       a catalog that is a folder of this machine, as Hadoop's
types        types both ways
planning     the files of a snapshot, and how two snapshots differ
reading      the rows of a file, without those that are deleted
fetching     snapshot after snapshot
staging      data files that no snapshot has yet
upserts      the places of the rows that others replace
commits      snapshots with the number of a commit in them
upkeep       compaction, old snapshots, files that nobody needs
"""
