"""Parameters of statements: values of Python in the places of `?`, `$1` and `:name`, and prepared statements."""
