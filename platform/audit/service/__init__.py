"""The audit service: reads the logs back, collects every tier's reports, keeps the books, judges and shows."""
