"""Linear leaves on the CPU: fitting them, and predicting with them."""
