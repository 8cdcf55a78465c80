"""What a mirror does with topics besides copying their records: their names in the destination, their settings."""
