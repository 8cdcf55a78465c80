"""`headrace …`: one small file for each command. Results to stdout, problems to stderr; exit 0, 1 (it failed), 2 (wrong
usage).
"""
