"""What the platform costs as its number of topics grows, at rest and when topics appear: `python -m bench.growth`."""
