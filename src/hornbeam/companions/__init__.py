"""Integration with tools of the ecosystem: Optuna, MLflow, skops.

Each module bears the name of its tool and imports it when it is used; `import hornbeam` imports none of them.
What scikit-learn's callbacks need is in `sklearn/fit_tasks.py`, the bar in notebooks in `training/progress.py`.
"""
