"""Small C (and Java) clients of the bench, and how they are built and run. `driver.h` says what every driver has in common."""
