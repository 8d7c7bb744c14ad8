"""Trees of a GPU's rows that grow on several workers: see distributed/."""
