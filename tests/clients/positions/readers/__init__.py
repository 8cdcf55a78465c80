"""Python's clients and kcat as readers: each is a program that reads a command a line and responds in lines."""
