"""Table of the convex models with a composed penalty. Standard library only."""

from __future__ import annotations

from mtlrun.estimators.methodinfo import SHRINK_COST, SPECTRAL_COST, STRENGTHS, MethodInfo, with_classifier

_FEW = (0.1, 1.0, 10.0, 100.0)

#: Regressors and their classifiers.
COMPOSITES: list[MethodInfo] = [
    *with_classifier(
        MethodInfo(
            name="RobustFeatureMTL",
            class_path="mtlrun.estimators.mixtures:RobustFeatureMTL",
            summary="Features selected jointly plus outlier tasks (rMTFL)",
            objective="loss + alpha (sum over features of ||P[feature, :]||_2 + lam sum over tasks of ||Q[:, task]||_2)"
            ", W = P + Q",
            losses=("squared",),
            source="Gong, Ye and Zhang 2012",
            bibtex_key="gong2012",
            complexity=SHRINK_COST,
            zero_from="alpha_max",
            default_grid={"alpha": STRENGTHS, "lam": (0.5, 0.8, 1.2)},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="SparseLowRankMTL",
            class_path="mtlrun.estimators.mixtures:SparseLowRankMTL",
            summary="Low rank plus sparse coefficients",
            objective="loss + alpha (||P||_* + lam sum |Q|), W = P + Q",
            losses=("squared",),
            source="Chen, Liu and Ye 2010",
            bibtex_key="chen2010",
            complexity=SPECTRAL_COST,
            zero_from="alpha_max",
            default_grid={"alpha": STRENGTHS, "lam": (0.2, 0.4, 0.7)},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="DirtyMTL",
            class_path="mtlrun.estimators.mixtures:DirtyMTL",
            summary="Features shared by all tasks plus single features of single tasks (dirty model)",
            objective="loss + alpha (sum over features of max |P[feature, :]| + lam sum |Q|), W = P + Q",
            losses=("squared",),
            source="Jalali et al. 2010",
            bibtex_key="jalali2010",
            complexity=SHRINK_COST + ", and a sort of every row",
            zero_from="alpha_max",
            default_grid={"alpha": STRENGTHS, "lam": (0.3, 0.5, 0.8)},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="GraphMTL",
            class_path="mtlrun.estimators.graph:GraphMTL",
            summary="Coefficients pulled together along a graph of tasks, or to their mean",
            objective="loss + alpha/2 sum over pairs of A[s, t] ||w_s - w_t||^2 + ridge/2 ||W||_F^2 + sparsity sum |W|",
            losses=("squared",),
            source="Evgeniou and Pontil 2004",
            bibtex_key="evgeniou2004",
            complexity=SHRINK_COST + ", and d T^2 for the coupling",
            zero_from="sparsity_max",
            default_grid={"alpha": STRENGTHS, "ridge": _FEW},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="TemporalGroupLasso",
            class_path="mtlrun.estimators.temporal:TemporalGroupLasso",
            summary="Ordered tasks: joint features, coefficients that change smoothly",
            objective="loss + alpha sum over features of ||W[feature, :]||_2 + smoothness/2 sum ||w_{t+1} - w_t||^2 "
            "+ ridge/2 ||W||_F^2",
            losses=("squared",),
            source="Zhou et al. 2011",
            bibtex_key="zhou2011",
            complexity=SHRINK_COST + ", and d T^2 for the coupling",
            zero_from="alpha_max",
            default_grid={"alpha": STRENGTHS, "smoothness": _FEW},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="FusedMTL",
            class_path="mtlrun.estimators.temporal:FusedMTL",
            summary="Ordered tasks: coefficients that change seldom (fused sparse group lasso)",
            objective="loss + alpha sum over features of ||W[feature, :]||_2 + fusion sum |w_{t+1} - w_t| "
            "+ sparsity sum |W|",
            losses=("squared",),
            source="Zhou et al. 2012",
            bibtex_key="zhou2012",
            complexity=SHRINK_COST,
            zero_from="alpha_max",
            default_grid={"alpha": STRENGTHS, "fusion": _FEW},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="ClusteredMTL",
            class_path="mtlrun.estimators.clustered_convex:ClusteredMTL",
            summary="Clusters of tasks, convex relaxation (CMTL)",
            objective="loss + alpha eta (1 + eta) min over M of tr(W (eta I + M)^-1 W'), 0 <= M <= I, "
            "tr(M) = n_clusters",
            losses=("squared",),
            source="Zhou, Chen and Ye 2011",
            bibtex_key="zhou2011clustered",
            complexity="per iteration one eigendecomposition of min(d, T); once one of X",
            default_grid={"alpha": STRENGTHS, "eta": (0.01, 0.1, 1.0), "n_clusters": (2, 5, 10)},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="ConvexASO",
            class_path="mtlrun.estimators.clustered_convex:ConvexASO",
            summary="Tasks that share a subspace of the features, convex relaxation (cASO)",
            objective="loss + alpha eta (1 + eta) min over M of tr(W' (eta I + M)^-1 W), 0 <= M <= I, "
            "tr(M) = n_components",
            losses=("squared",),
            source="Chen et al. 2009",
            bibtex_key="chen2009",
            complexity="per iteration one eigendecomposition of min(d, T); once one of X",
            default_grid={"alpha": STRENGTHS, "eta": (0.01, 0.1, 1.0), "n_components": (2, 5, 10)},
        )
    ),
]
