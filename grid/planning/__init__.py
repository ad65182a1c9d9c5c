"""Planning of training: what fits where, how long it takes, what crosses the network, and which engine suits."""
