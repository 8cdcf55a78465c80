"""The same requests to two servers, their answers made plain and laid side by side. See ../test_same_answers.py."""
