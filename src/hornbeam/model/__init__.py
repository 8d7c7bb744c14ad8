"""`Booster`: a trained model, its file, and what is made of models."""
