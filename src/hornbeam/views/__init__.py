"""What people look at: `plots` of models, and `report`, a page about one. They see a finished model."""
