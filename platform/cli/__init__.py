"""`headrace …`: one small file per command. Results to stdout, problems to stderr; exit 0, 1 (it failed), 2 (asked wrongly)."""
