"""The HTTP and WebSocket API, and the web page."""
