"""Growth on sparse data: bins in columns, bundles and entries (data/stored_bins.py)."""
