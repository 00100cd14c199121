"""Self-contained HTML pages: pictures included, nothing fetched from elsewhere."""
