"""The runtime's interfaces between processes: over gRPC, or unix sockets on one host.

The only room that knows gRPC.
"""
