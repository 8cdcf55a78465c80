"""Histories of one topic's table that others change, and the truth of what a reader of its branch `main` gets.

Real are the publish, its gate and everything that reads files. Doubles are the file system (`memory_files`) and, for what
pyiceberg stores, the table's two branches and the proofs (`memory_table`). The audit's word on `loads` is true by construction.
"""
