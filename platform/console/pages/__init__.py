"""One file for each page: asks `answers` and returns HTML. The functions beneath the commands do the work."""
