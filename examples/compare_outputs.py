"""Compare methods on several targets with shared rows: scikit-learn's Linnerud data, 20
men and 3 targets.

Run with: python examples/compare_outputs.py
"""

from sklearn.datasets import load_linnerud

import mtlrun


def main() -> object:
    """Compare two multi-task methods with the baselines, and predict new rows with
    the best model.
    """
    data = load_linnerud(as_frame=True)
    result = mtlrun.compare(
        data.frame,
        targets=list(data.target_names),
        methods=["JointFeatureMTL", "RobustMTL"],
        repeats=1,
    )
    print(result.verdict)
    print(result.coefficients.round(2).to_string())
    print(
        "predictions:", result.model.scores(data.data.to_numpy()[:2]).round(1).tolist()
    )
    return result


if __name__ == "__main__":
    main()
