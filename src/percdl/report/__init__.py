"""Self-contained HTML pages: pictures inside, nothing fetched from elsewhere."""
