"""A server with the sockets and commands of Intan's RHX software, in front of the simulated array."""
