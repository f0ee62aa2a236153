"""What is run, on what, and how: rows, programs, servers, rounds; the result they end in."""
