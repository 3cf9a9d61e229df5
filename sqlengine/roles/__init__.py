"""Who may do what: roles with what is kept of their passwords, tokens, and what each may do. Knows no SQL, and no network."""
