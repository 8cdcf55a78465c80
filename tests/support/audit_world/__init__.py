"""A small world with a known truth: applications, logs and tiers that lose, double, alter, repeat and fall silent.

Single records are followed by identity: each has a number, and each tier a list of (address, record, content). The truth is
counted from these lists. Nothing of the audit's comparison is used for it.
"""
