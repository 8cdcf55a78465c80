"""The files of a journal: their layouts, writers and readers; no policy.

`layout`: bytes of a segment. `segment_writer`, `segment_reader`. `head`: `journal.json`. `folder`: a new journal on disk.
`losses_table`, `dropped`: what was refused and what was given up. `under_way`: what must not be given up. `writer_process`: is
the writer alive?
"""
