"""Faces: the HTTP and WebSocket API, and the page that a lab hangs on its wall."""
