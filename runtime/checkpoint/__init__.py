"""Storage of checkpoints and savepoints: what a job needs to go on, in files that outlive it."""
