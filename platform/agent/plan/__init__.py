"""What the agent decides, as pure functions: batches of a chunk, what an answer and a restart mean, what may be sealed."""
