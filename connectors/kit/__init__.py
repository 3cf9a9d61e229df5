"""What connectors share, so that each of them has only what is its own system's.

    prefetch    a source that blocks is read in the background, within a bound of memory, and again after errors
    commits     two-phase commit: what a checkpoint names is committed, once, whatever is killed when
    laned       the same for large epochs: tasks write rows into files, and commit them
    lane_files  those files
    message_source, journal, journal_reading    sources of messages; those that are written down before they are acknowledged
    versions    a table that has versions, read version after version
    folding     changes by key of which the last counts
    direct      rows that are shown as they come
    spool       rows in a checkpoint
    aggregates  what a query counts and sums, asked of another system
    predicates  conditions of a query as SQL of another system

`sqlengine.spi` gives them to third parties.
"""
