"""What a count reads of a table, and what it finds beside the loads' own rows."""
