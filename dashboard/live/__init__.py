"""Live pictures of runs: a feed per process, sockets and event streams for those who watch."""
