"""The agent as a process: its composition root, what it shows of itself, and the end of its enrolment."""
