"""Images of the tissue: capture, storage, features, quality."""
