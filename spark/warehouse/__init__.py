"""The Iceberg warehouse: catalog, tables, commits, and questions in SQL."""
