"""What an environment knows: its session, catalogs and tables in memory, views, jobs, and how they are found again."""
