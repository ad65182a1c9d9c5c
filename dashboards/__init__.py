"""Faces: HTTP and WebSocket API, the web page."""
