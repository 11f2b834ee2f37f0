"""Table of the methods: facts that need none of their code. Standard library only."""

from __future__ import annotations

import dataclasses

from mtlrun.estimators.methodinfo import LASSO_COST, SPECTRAL_COST, STRENGTHS, MethodInfo, with_classifier
from mtlrun.estimators.methods_composite import COMPOSITES
from mtlrun.estimators.methods_groups import GROUPS


def _baselines(info: MethodInfo) -> list[MethodInfo]:
    """Return the Independent and the Pooled form of a single-task model given as `info`."""
    pairs = (("Independent", "{}, every task alone"), ("Pooled", "{}, one model for the rows of all tasks"))
    return [
        dataclasses.replace(
            info,
            name=prefix + info.name,
            class_path=f"mtlrun.estimators.independent:{prefix}{info.name}",
            summary=text.format(info.summary),
            multitask=False,
        )
        for prefix, text in pairs
    ]


_METHODS: list[MethodInfo] = [
    *_baselines(
        MethodInfo(
            name="Ridge",
            class_path="",
            summary="Ridge regression",
            objective="loss + alpha/2 ||W||_F^2, loss = 1/2 sum of squares",
            losses=("squared",),
            source="Hoerl and Kennard 1970",
            bibtex_key="hoerl1970",
            complexity="one Cholesky factorisation of min(n, d) per task, one for all tasks of a shared design",
            default_grid={"alpha": STRENGTHS},
        )
    ),
    *_baselines(
        MethodInfo(
            name="Lasso",
            class_path="",
            summary="Lasso (scikit-learn's coordinate descent)",
            objective="loss + alpha ||W||_1, loss = 1/2 sum of squares",
            losses=("squared",),
            source="Tibshirani 1996",
            bibtex_key="tibshirani1996",
            complexity="O(N d) per epoch",
            default_grid={"alpha": STRENGTHS},
        )
    ),
    *_baselines(
        MethodInfo(
            name="Logistic",
            class_path="",
            summary="Logistic regression (scikit-learn's L-BFGS)",
            objective="loss + alpha/2 ||W||_F^2, loss = sum of log-losses",
            losses=("logistic",),
            kind="classifier",
            source="Cox 1958",
            bibtex_key="cox1958",
            complexity="O(N d) per iteration",
            default_grid={"alpha": STRENGTHS},
        )
    ),
    *_baselines(
        MethodInfo(
            name="SVC",
            class_path="",
            summary="Linear support vector machine (LIBLINEAR through scikit-learn)",
            objective="1/2 ||W||_F^2 + C sum of hinge losses",
            losses=("hinge",),
            kind="classifier",
            source="Fan et al. 2008",
            bibtex_key="fan2008",
            complexity="O(N d) per epoch",
            default_grid={"C": (0.01, 0.1, 1.0, 10.0, 100.0)},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="SparseMTL",
            class_path="mtlrun.estimators.catalogue:SparseMTL",
            summary="Sparse coefficients, l1,1 norm (One Norm)",
            objective="loss + alpha sum |W|",
            losses=("squared",),
            source="Tibshirani 1996",
            bibtex_key="tibshirani1996",
            complexity=LASSO_COST,
            zero_from="alpha_max",
            default_grid={"alpha": STRENGTHS},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="JointFeatureMTL",
            class_path="mtlrun.estimators.catalogue:JointFeatureMTL",
            summary="Features selected jointly by all tasks, l2,1 norm of the rows (features)",
            objective="loss + alpha sum over features of ||W[feature, :]||_2",
            losses=("squared",),
            source="Obozinski, Taskar and Jordan 2010",
            bibtex_key="obozinski2010",
            complexity=LASSO_COST,
            zero_from="alpha_max",
            default_grid={"alpha": STRENGTHS},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="TraceNormMTL",
            class_path="mtlrun.estimators.catalogue:TraceNormMTL",
            summary="Coefficients of low rank, trace norm",
            objective="loss + alpha ||W||_*",
            losses=("squared",),
            source="Ji and Ye 2009",
            bibtex_key="ji2009",
            complexity=SPECTRAL_COST,
            zero_from="alpha_max",
            default_grid={"alpha": STRENGTHS},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="RobustMTL",
            class_path="mtlrun.estimators.robust:RobustMTL",
            summary="Low rank plus outlier tasks (RMTL)",
            objective="||L||_* + lam sum over tasks of ||E[:, task]||_2 + beta sum of squares, W = L + E",
            losses=("squared",),
            source="Chen, Zhou and Ye 2011; Pan et al. 2015",
            bibtex_key="chen2011",
            complexity=SPECTRAL_COST,
            default_grid={"lam": (0.2, 0.3, 0.5, 0.7), "beta": (0.001, 0.01, 0.1, 1.0, 10.0)},
            fast={"solver": "auto", "variant": "corrected"},
        )
    ),
    *with_classifier(
        MethodInfo(
            name="DivideAndConquerRMTL",
            class_path="mtlrun.estimators.divide:DivideAndConquerRMTL",
            summary="Robust MTL on blocks of tasks, low-rank part projected (DC-RMTL)",
            objective="that of the base estimator on every block; then L <- U U'L, U of one block",
            losses=("squared",),
            source="Pan et al. 2015",
            bibtex_key="pan2015",
            complexity="that of the base estimator with T / n_blocks tasks, n_blocks times, in parallel",
            default_params={"base": {"estimator": "RobustMTL"}},
            default_grid={"base__lam": (0.3, 0.5, 0.7), "base__beta": (0.001, 0.01, 0.1, 1.0, 10.0)},
            fast={"base__solver": "auto", "base__variant": "corrected"},
        )
    ),
    MethodInfo(
        name="GraphSVC",
        class_path="mtlrun.estimators.graph_svm:GraphSVC",
        summary="Linear SVMs pulled together by a graph of tasks, certified dual coordinate ascent",
        objective="1/2 ||W||_F^2 + coupling/2 tr(W L W') + C sum of losses, L = Laplacian of the task similarity",
        losses=("hinge", "squared_hinge", "logistic"),
        kind="classifier",
        source="Widmer et al. 2012",
        bibtex_key="widmer2012",
        complexity="O(nnz + T d) per epoch when all tasks are equally similar, else O(nnz + T^2 d)",
        default_grid={"C": (0.01, 0.1, 1.0, 10.0, 100.0), "coupling": (0.01, 0.1, 1.0, 10.0)},
    ),
    MethodInfo(
        name="MultiTaskKernelSVC",
        class_path="mtlrun.estimators.kernel_svm:MultiTaskKernelSVC",
        summary="Kernel SVM with the multi-task kernel of a graph of tasks (MTK), by LIBSVM",
        objective="that of GraphSVC with the hinge loss and one intercept for all tasks, not penalised",
        losses=("hinge",),
        kind="classifier",
        source="Evgeniou, Micchelli and Pontil 2005",
        bibtex_key="evgeniou2005",
        complexity="O(N^2 d) to O(N^3)",
        default_grid={"C": (0.01, 0.1, 1.0, 10.0, 100.0), "coupling": (0.01, 0.1, 1.0, 10.0)},
    ),
    MethodInfo(
        name="FETR",
        class_path="mtlrun.estimators.fetr:FETR",
        summary="Feature and task relationships learned together, block coordinate descent",
        objective="sum of squares + eta ||W||_F^2 + rho [tr(S1 W S2 W') - T log|S1| - d log|S2|], S1, S2 in a box",
        losses=("squared",),
        source="Zhao, Stretcu, Smola and Gordon 2017",
        bibtex_key="zhao2017",
        complexity="per round eigendecompositions of d and T and d T (d + T), ragged: times iterations of CG",
        default_grid={"eta": (0.01, 1.0, 100.0), "rho": (0.01, 0.1, 1.0, 10.0, 100.0)},
    ),
    MethodInfo(
        name="MTFRL",
        class_path="mtlrun.estimators.fetr:MTFRL",
        summary="Matrix-normal prior on the coefficients, flip-flop updates with a fudge factor",
        objective="that of FETR, but the updates of S1 and S2 minimise nothing",
        losses=("squared",),
        source="Zhang and Schneider 2010",
        bibtex_key="zhang2010sparse",
        complexity="as FETR",
        default_grid={"eta": (0.01, 1.0, 100.0), "rho": (0.01, 0.1, 1.0, 10.0, 100.0)},
    ),
    MethodInfo(
        name="MTFL",
        class_path="mtlrun.estimators.relationship:MTFL",
        summary="Multi-task feature learning, squared trace norm",
        objective="loss + gamma ||W||_*^2",
        losses=("squared",),
        source="Evgeniou and Pontil 2007",
        bibtex_key="evgeniou2007",
        complexity=SPECTRAL_COST,
        default_grid={"gamma": STRENGTHS},
        fast={"variant": "corrected"},
    ),
    MethodInfo(
        name="MTRL",
        class_path="mtlrun.estimators.relationship:MTRL",
        summary="Multi-task relationship learning, covariance of the tasks",
        objective="loss + lam1/2 ||W||_F^2 + lam2/2 ||W||_*^2",
        losses=("squared",),
        source="Zhang and Yeung 2010",
        bibtex_key="zhang2010convex",
        complexity=SPECTRAL_COST,
        default_grid={"lam1": (0.01, 1.0, 100.0), "lam2": STRENGTHS},
        fast={"variant": "corrected"},
    ),
    MethodInfo(
        name="MTNetwork",
        class_path="mtlrun.estimators.network:MTNetwork",
        summary="Neural network with a shared body (MTN), one per task (STN), or with related outputs (MTN-FETR)",
        objective="mean of squares, plus for MTN-FETR the prior of FETR on the last layer",
        losses=("squared",),
        source="Caruana 1997; Zhao, Stretcu, Smola and Gordon 2017",
        bibtex_key="zhao2017",
        complexity="O(N * weights) per epoch",
        default_grid={"learning_rate": (0.001, 0.01), "weight_decay": (0.0, 0.001)},
        extra="nn",
    ),
]

#: All methods by name.
METHODS: dict[str, MethodInfo] = {info.name: info for info in [*_METHODS, *COMPOSITES, *GROUPS]}
