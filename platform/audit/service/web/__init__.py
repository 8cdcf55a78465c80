"""The audit over HTTP: JSON, the page, and the report in words."""
