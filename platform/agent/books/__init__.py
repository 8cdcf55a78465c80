"""What the agent tells the audit: a run for each producer, the enrolment, and the reports under way."""
