"""Explanations of a model: SHAP values, interactions and importances.

    contributions          what each feature adds to each raw score
    explanation            the same as `shap.Explanation`, which SHAP's plots take
    importance             how much each feature was used
    permutation            how much worse a metric becomes when a feature is shuffled
    tree_dependence        partial dependence by the branches of trees
    shap_format            the model as `shap.TreeExplainer` reads it
    tree_explainer         what scripts do with `shap.TreeExplainer`, for any model

Methods of `Booster` (`predict(pred_contrib=True)`, `explain`, `feature_importance`, `to_shap`) lead here.
"""

from hornbeam.explain.contributions import explained, predict_contributions, predict_interactions
from hornbeam.explain.explanation import Explanation, explain
from hornbeam.explain.importance import importance_of
from hornbeam.explain.permutation import PermutationImportance, permutation_importance
from hornbeam.explain.shap_format import to_shap
from hornbeam.explain.tree_explainer import TreeExplainer

__all__ = [
    "Explanation",
    "PermutationImportance",
    "TreeExplainer",
    "explain",
    "explained",
    "importance_of",
    "permutation_importance",
    "predict_contributions",
    "predict_interactions",
    "to_shap",
]
