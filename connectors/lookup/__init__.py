"""The connector `lookup-jsonl`: a file of JSON lines that can only be asked for the rows of keys."""
