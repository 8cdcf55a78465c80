"""The agent: ships what applications journal and what files hold to the live cluster, and keeps the audit's records of it across
its own restarts. docs/AGENT.md is its manual.
"""
