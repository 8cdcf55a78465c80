"""Payloads become events, decoded with their writers' schemas."""
