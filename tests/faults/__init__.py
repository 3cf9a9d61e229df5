"""The fault suite: jobs that are killed, disks that fail, savepoints at another parallelism. See CONTRIBUTING.md."""
