"""Which method helps when several targets share their rows? scikit-learn's physical exercise data, 20 men, 3 targets.

Run it with: python examples/compare_outputs.py
"""

from sklearn.datasets import load_linnerud

import mtlrun


def main() -> object:
    """Compare, save everything and show how to use the model on new rows."""
    data = load_linnerud(as_frame=True)
    result = mtlrun.compare(
        data.frame, targets=list(data.target_names), methods=["JointFeatureMTL", "RobustMTL"], splits=3
    )
    print(result.verdict)
    print(result.coefficients.round(2).to_string())
    print("predictions:", result.model.scores(data.data.to_numpy()[:2]).round(1).tolist())
    return result


if __name__ == "__main__":
    main()
