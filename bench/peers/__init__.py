"""The servers under measurement, one file each: how it is started and stopped, which processes it is, what it keeps on disk."""
