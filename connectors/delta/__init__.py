"""The connector `delta`: tables of Delta Lake, by their place, and a catalog of the tables in a folder.

options      options: nothing here loads the library
table        the connector
names        a folder of tables, as the catalog of an environment
library      tables of the library, and its errors as ours
log          what a version of a table is made of
reading      the rows of files
fetching     version after version
staging      files that no version has yet
commits      versions with the number of a commit in them
"""
