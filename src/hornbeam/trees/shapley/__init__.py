"""How Shapley values of trees are computed: the mathematics, and the plans that every device follows."""
