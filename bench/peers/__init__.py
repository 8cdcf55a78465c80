"""The servers under measurement, one file each, and the life that they share (`lifecycle.py`)."""
