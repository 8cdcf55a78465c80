"""Windows, reports, ranges, books and verdicts: values in, values out. No socket, file, clock, random or thread."""
