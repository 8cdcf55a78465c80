"""What survives the agent: one SQLite file in its state folder."""
