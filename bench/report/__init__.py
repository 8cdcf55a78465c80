"""What is made from a result: verdicts, pictures, the page. Pure but for the files it writes."""
