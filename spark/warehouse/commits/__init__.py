"""How a change of a table is committed: traps of pyiceberg, and answers that come late."""
