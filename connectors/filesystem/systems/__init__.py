"""Where files are: on this machine, in an object store, on a server.

seam            what the connector asks of a file system
local           this machine
object_store    S3, Google Cloud Storage, Azure, through `runtime.checkpoint.remote_storage`
web             files that a server gives over HTTP, to be read only
hadoop          HDFS, through pyarrow, to be read only
choice          which of them a path means, and their options
"""
