"""How the audit service fares with many topics: a generated store, and a service on it that is measured."""
