"""The Iceberg warehouse: catalog, tables, commits, and SQL queries."""
