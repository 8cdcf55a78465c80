"""Small clients in C, Java and Python, and how they are built and run. `driver.h` describes what the C drivers share."""
