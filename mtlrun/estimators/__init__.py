"""scikit-learn estimators and the registry of methods."""
