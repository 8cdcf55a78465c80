"""Every decoder of foreign bytes, given foreign bytes. `python -m tests.fuzz TARGET` searches with atheris."""
