"""The golden files run in `test_golden.py`, in every way; the plugin leaves them alone."""

collect_ignore_glob = ["*.slt"]
