"""The agent's work, turn by turn: find sources, read, plan, commit, send, settle, report."""
