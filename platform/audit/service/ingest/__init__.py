"""Takes in the tiers' reports and counts the tiers that are read back."""
