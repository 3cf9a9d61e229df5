"""Documents of a collection as they are, and then all of its changes, by a change stream.

    snapshot   pages of documents behind an `_id`, of the moment at which reading began, or later
    changes    the change stream from that moment on, then behind the token of the last event

A document that is read late is as it is then, and the stream tells once more what has made it so: rows replace each other by `_id`, so
what comes out in the end is what is there. With images from before each change, rows do not replace each other: then the pages are all
of one moment, and the stream begins behind it.
"""
