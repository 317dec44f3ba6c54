"""Roles and their state: sessions, masters, workers, executors, rendezvous. No sockets here."""
