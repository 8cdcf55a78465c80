"""Loads of many small topics by one Spark application."""
