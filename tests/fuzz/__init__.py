"""Whatever reads bytes of strangers, given bytes of strangers. `python -m tests.fuzz TARGET` searches with atheris."""
