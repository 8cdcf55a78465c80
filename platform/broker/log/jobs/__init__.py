"""The slow work of a log: each job is made on the log's thread, runs on any thread, and is reported on the log's thread."""
