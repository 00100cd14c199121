"""Input of all kinds, by the million: a valid result or a documented error, and nothing else.

One file for each door: `cohorts` (arrays and frames), `tables` (CSV, Parquet, metadata),
`binaries` (NPZ, EDF, WFDB), `settings` (TOML), `posts` (messages to a site of a federation).
`engine` runs them.
"""
