"""The gRPC faces of the runtime's interfaces; the only room that knows gRPC."""
