"""What the agent reports to the audit: a run for each producer, the enrolment, and the reports under way."""
