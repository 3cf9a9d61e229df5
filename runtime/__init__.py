"""The interfaces of the engine, and the engine behind them.

Plans are walked by recursion, in whichever process they run, so the interpreter's recursion limit is raised when this is
imported, once: whoever recurses in another thread while it changes, as `ast.parse` does, may fail.
"""

import sys

MOST_CALLS = 10_000
"""What a stack of 8 MiB holds with room to spare, were every call one of those that take the C stack, too (to hash
nested nodes takes some 500 bytes a level)."""

sys.setrecursionlimit(max(MOST_CALLS, sys.getrecursionlimit()))
