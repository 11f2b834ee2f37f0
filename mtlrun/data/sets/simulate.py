"""Simulated data with known truth.

The same arguments give the same numbers, up to the rounding of matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse, special

from mtlrun.data.dataset import Dataset, check_sizes
from mtlrun.errors import DataError
from mtlrun.utils.sizes import allow_simulated

Array = np.ndarray

#: The three studies whose patients the paper pools, and their sizes (474 in all).
STUDIES = {"E-GEOD-16446": 114, "E-GEOD-20194": 278, "E-GEOD-22093": 82}
#: A + T content of the background, roughly as in the genomes.
AT_CONTENT = {
    "fly": 0.58,
    "mouse": 0.58,
    "human": 0.59,
    "cow": 0.58,
    "worm": 0.64,
    "cress": 0.64,
}
BASES = np.frombuffer(b"ACGT", dtype=np.uint8)
LEVELS = 256
#: Bases before the site that lean towards pyrimidines, and bases around the site that
#: carry a consensus.
TRACT = 16
CONSENSUS = 4
_CHUNK = 1 << 16
#: Families of `simulate_families`: what the tasks have in common.
FAMILIES = (
    "equal",
    "slopes",
    "low-rank",
    "shared-features",
    "clusters",
    "outliers",
    "unrelated",
    "unrelated-scales",
    "sign-flipped",
)


def simulate_rmtl(
    *,
    n: int = 300,
    d: int = 50,
    m: int = 20,
    rank: int = 5,
    outliers: float = 0.1,
    noise: float = 0.1,
    kind: str = "sign",
    seed: int = 0,
) -> Dataset:
    """Low-rank tasks with a few outlier tasks, on one shared design.

    This is the model of robust multi-task learning.

    X ~ N(0, 1), W = L + E with L = U V' / sqrt(rank) (U, V ~ N(0, 1)) and E zero except
    for ``outliers * m`` columns ~ N(0, 4) (variance 4), y = X w + N(0, (noise * std)^2)
    with the standard deviation of the task's own X w.

    Parameters
    ----------
    n, d, m : int
        Rows, features, tasks. The scaling experiments use n=500 with d in 200..3200,
        m=200 or m in 100..1600, d=500.
    rank : int, default=5
        Rank of L.
    outliers : float, default=0.1
        Part of the tasks that are outliers (at least one unless 0).
    noise : float, default=0.1
        Standard deviation of the noise, relative to the standard deviation of the
        noise-free targets.
    kind : {"sign", "value"}, default="sign"
        Labels -1/+1, or the values themselves (regression).
    seed : int, default=0

    Returns
    -------
    Dataset
        ``truth``: W, L, E of shape (d, m) and ``outliers``, the outlier tasks.

    Raises
    ------
    DataError
        If a size is not positive, a part is outside [0, 1], or `kind` is unknown.

    Examples
    --------
    >>> from mtlrun.data.sets.simulate import simulate_rmtl
    >>> data = simulate_rmtl(n=50, d=10, m=6)
    >>> data.X.shape, data.y.shape, sorted(data.truth)
    ((50, 10), (50, 6), ['E', 'L', 'W', 'outliers'])
    """
    check_sizes(n=n, d=d, m=m, rank=rank)
    allow_simulated((n, d), (d, m), (n, m), (d, rank), (m, rank))
    _require(kind in ("sign", "value"), f"kind must be 'sign' or 'value', not {kind!r}")
    _require(
        0 <= outliers <= 1 and noise >= 0,
        f"outliers must be in [0, 1] and noise >= 0, not {outliers} and {noise}",
    )
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    L = _low_rank(d, m, rank, rng)
    n_outliers = 0
    if outliers:
        n_outliers = max(1, round(outliers * m))
    chosen = np.sort(rng.permutation(m)[:n_outliers])
    E = np.zeros((d, m))
    E[:, chosen] = 2.0 * rng.standard_normal((d, len(chosen)))
    Y = _noisy(X @ (L + E), noise, rng)
    task_type = "regression"
    if kind == "sign":
        Y = np.where(Y >= 0, 1.0, -1.0)
        task_type = "binary"
    return Dataset(
        X=X,
        y=Y,
        task_type=task_type,
        truth={"W": L + E, "L": L, "E": E, "outliers": chosen},
    )


def simulate_fetr(
    *,
    n: int = 500,
    d: int = 20,
    m: int = 10,
    l: float = 0.01,  # noqa: E741  (the name in the paper)
    u: float = 100.0,
    noise: float = 0.1,
    seed: int = 0,
) -> Dataset:
    """Tasks whose coefficients are matrix-normal, on one shared design.

    This is the model of feature and task relationship learning.

    X uniform in [0, 1]; Sigma1 (d, d) and Sigma2 (m, m) are random precision matrices
    with log-uniform spectra in [l, u]; W = Sigma1^{-1/2} Z Sigma2^{-1/2} with Z ~ N(0,
    1); Y = X W + N(0, (noise * std)^2). The paper's text has lost its generator; X and
    the spectra are the paper's as far as known, the rest is ours.

    Parameters
    ----------
    n, d, m : int
        Rows, features, tasks. The optimizer experiment uses n=10000 and d, m up to
        1000.
    l, u : float, default=0.01, 100
        Bounds of the spectra.
    noise : float, default=0.1
        Standard deviation of the noise, relative to the standard deviation of the
        task's X w.
    seed : int, default=0

    Returns
    -------
    Dataset
        ``truth``: W (d, m), Sigma1, Sigma2.

    Raises
    ------
    DataError
        If a size is not positive or not 0 < l <= u.
    """
    check_sizes(n=n, d=d, m=m)
    allow_simulated((n, d), (d, m), (n, m), (d, d), (m, m))
    _require(
        0 < l <= u and noise >= 0,
        f"0 < l <= u and noise >= 0 are needed, not l={l}, u={u}, noise={noise}",
    )
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    values1, basis1 = _random_spectrum(d, l, u, rng)
    values2, basis2 = _random_spectrum(m, l, u, rng)
    Z = rng.standard_normal((d, m))
    # Sigma1 and Sigma2 are precision matrices: W has their inverses as covariances.
    left = basis1 / np.sqrt(values1)
    right = basis2 / np.sqrt(values2)
    W = left @ Z @ right.T
    truth = {
        "W": W,
        "Sigma1": (basis1 * values1) @ basis1.T,
        "Sigma2": (basis2 * values2) @ basis2.T,
    }
    Y = _noisy(X @ W, noise, rng)
    return Dataset(X=X, y=Y, task_type="regression", truth=truth)


def simulate_gauss2d(
    *,
    n: int = 100_000,
    tasks: int = 2,
    means: str = "rotated",
    angle: float = 0.3,
    bayes_error: float = 0.07,
    seed: int = 0,
) -> Dataset:
    """Two balanced Gaussians with unit covariance per task in the plane; ragged design.

    Task t has the class means +mu_t and -mu_t. "rotated": |mu_t| =
    -Phi^{-1}(bayes_error), so that the best classifier (linear, without intercept) errs
    with that probability, and the directions of the mu_t are spread evenly over `angle`
    radians. "authors": all tasks have mu = (-1.5, -s), s uniform on (0, 2), and come
    with a similarity.

    Parameters
    ----------
    n : int, default=100000
        Rows in all, divided evenly among the tasks.
    tasks : int, default=2
    means : {"rotated", "authors"}, default="rotated"
    angle : float, default=0.3
        Angle between the means of the first and the last task.
    bayes_error : float, default=0.07
        Not used by "authors", whose means have one of their own.
    seed : int, default=0

    Returns
    -------
    Dataset
        ``truth``: ``means`` (tasks, 2), W (2, tasks) = 2 mu_t, ``bayes_error``; of
        "authors" the ``similarity`` of the tasks, too: 1 on the diagonal, 1/2 next to
        it.

    Raises
    ------
    DataError
        If there is less than one row per class and task, the error is outside (0, 0.5),
        or there are no such means.
    """
    check_sizes(n=n, tasks=tasks)
    allow_simulated((n, 2), (tasks, tasks))
    _require(
        n >= 2 * tasks and 0 < bayes_error < 0.5,
        f"n >= 2 * tasks and 0 < bayes_error < 0.5 are needed, not n={n}, "
        f"bayes_error={bayes_error}",
    )
    _require(
        means in ("rotated", "authors"),
        f"means must be rotated or authors, not {means!r}",
    )
    rng = np.random.default_rng(seed)
    truth: dict[str, Any] = {}
    if means == "authors":
        mu = np.tile([-1.5, -rng.uniform(0, 2)], (tasks, 1))
        bayes_error = float(special.ndtr(-np.linalg.norm(mu[0])))
        truth["similarity"] = (np.ones((tasks, tasks)) + np.eye(tasks)) / 2
    else:
        offsets = np.zeros(1)
        if tasks > 1:
            offsets = np.linspace(-angle / 2, angle / 2, tasks)
        directions = np.pi / 4 + offsets
        # At this distance of the means from zero, the best classifier errs with the
        # probability `bayes_error`.
        distance = -special.ndtri(bayes_error)
        mu = distance * np.column_stack([np.cos(directions), np.sin(directions)])
    sizes = _even_sizes(n, tasks)
    task_id = np.repeat(np.arange(tasks), sizes)
    labels = []
    for size in sizes:
        balanced = np.where(np.arange(size) % 2, -1.0, 1.0)
        labels.append(rng.permutation(balanced))
    y = np.concatenate(labels)
    X = y[:, None] * mu[task_id] + rng.standard_normal((n, 2))
    truth |= {"means": mu, "W": 2 * mu.T, "bayes_error": bayes_error}
    return Dataset(
        X=X,
        y=y,
        task_type="binary",
        task_id=task_id,
        features=["x1", "x2"],
        truth=truth,
    )


def simulate_kernel_groups(
    *, rows: int = 200, tasks: int = 8, d: int = 6, noise: float = 0.1, seed: int = 0
) -> Dataset:
    """Binary tasks in two groups, on a ragged design.

    A line separates the classes of one group. A pair of lines (a product) separates the
    classes of the other.

    Tasks of a group need the same kernel (linear, or polynomial of degree 2), but no
    task has the direction of another, so that only the choice of the kernel can be
    shared. Rows are N(0, I).

    Parameters
    ----------
    rows : int, default=200
        Of every task.
    tasks : int, default=8
        The first half, rounded up, is linear.
    d : int, default=6
        Features, at least 2.
    noise : float, default=0.1
        Part of the labels that are flipped, below 1/2.
    seed : int, default=0

    Raises
    ------
    DataError
        If a size is too small or `noise` is out of range.
    """
    check_sizes(rows=rows, tasks=tasks, d=d)
    allow_simulated((tasks, rows, d))
    _require(
        d >= 2 and 0 <= noise < 0.5,
        f"d >= 2 and 0 <= noise < 0.5 are needed, not d={d}, noise={noise}",
    )
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((tasks, rows, d))
    bases = []
    for _ in range(tasks):
        basis, _ = np.linalg.qr(rng.standard_normal((d, 2)))
        bases.append(basis)
    along = np.einsum("tnd,tdk->tnk", X, np.stack(bases))
    first = along[:, :, 0]
    second = along[:, :, 1]
    n_linear = (tasks + 1) // 2
    is_linear = np.arange(tasks) < n_linear
    scores = np.where(is_linear[:, None], first, first * second)
    is_flipped = rng.random((tasks, rows)) < noise
    y = np.where(scores > 0, 1.0, -1.0) * np.where(is_flipped, -1.0, 1.0)
    names = [f"line {t + 1}" for t in range(n_linear)]
    names += [f"product {t + 1}" for t in range(n_linear, tasks)]
    task_id = np.repeat(np.arange(tasks), rows)
    return Dataset(
        X=X.reshape(-1, d),
        y=y.ravel(),
        task_type="binary",
        task_id=task_id,
        tasks=names,
    )


def simulate_families(
    *,
    family: str = "equal",
    rows: int = 260,
    tasks: int = 16,
    d: int = 12,
    noise: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """Linear tasks of which it is known what they have in common. Ragged regression.

    Rows are N(0, I), coefficients w_t of length 1, y = x'w_t + N(0, noise^2), so that
    noise 1 leaves half of the variance to the model. Directions are drawn uniformly. By
    family, w_t is

    * equal: one direction for all tasks;
    * slopes: that direction plus a change of half its length in a direction of the
      task's own;
    * low-rank: a direction in a plane that all tasks share;
    * shared-features: a direction of the task's own among the same three features;
    * clusters: one of three directions;
    * outliers: as slopes, but every sixth task has a direction of its own;
    * unrelated: a direction of the task's own;
    * unrelated-scales: the same, but tasks do not even share their scales. The length
      of w_t and the noise are multiplied by exp(z) with z ~ N(0, 1), drawn anew for
      each task and each of the two, and y has a level ~ N(0, 1);
    * sign-flipped: one direction or, for half of the tasks, its opposite.

    Parameters
    ----------
    family : str, default="equal"
    rows : int, default=260
        Of every task.
    tasks, d : int, default=16 and 12
        Tasks, and features, at least three.
    noise : float, default=1
    seed : int, default=0

    Returns
    -------
    Dataset
        ``truth``: W (d, tasks).

    Raises
    ------
    DataError
        If the family is unknown, a size is too small, or the noise is negative.
    """
    check_sizes(rows=rows, tasks=tasks, d=d)
    _require(
        family in FAMILIES,
        f"family must be one of {', '.join(FAMILIES)}, not {family!r}",
    )
    _require(
        d >= 3 and noise >= 0,
        f"d >= 3 and noise >= 0 are needed, not d={d}, noise={noise}",
    )
    rng = np.random.default_rng(seed)
    task_part = rng.standard_normal((d, tasks))
    common = rng.standard_normal((d, 3))
    task_part = task_part / np.linalg.norm(task_part, axis=0)
    common = common / np.linalg.norm(common, axis=0)
    # All families are drawn: rows and noise are the same for each of them.
    weights = rng.standard_normal((2, tasks))
    numbers = np.arange(tasks)
    slopes = common[:, :1] + 0.5 * task_part
    is_shared_feature = np.arange(d)[:, None] < 3
    is_outlier = numbers % 6 == 5
    signs = np.where(numbers % 2, -1.0, 1.0)
    W_of_families = {
        "equal": np.repeat(common[:, :1], tasks, axis=1),
        "slopes": slopes,
        "low-rank": common[:, :2] @ weights,
        "shared-features": np.where(is_shared_feature, task_part, 0.0),
        "clusters": common[:, numbers % 3],
        "outliers": np.where(is_outlier, task_part, slopes),
        "unrelated": task_part,
        "unrelated-scales": task_part,
        "sign-flipped": common[:, :1] * signs,
    }
    W = W_of_families[family]
    W = W / np.linalg.norm(W, axis=0)
    noise_of_task = np.full((tasks, 1), noise)
    level_of_task = np.zeros((tasks, 1))
    if family == "unrelated-scales":
        # A generator of its own: the rows of the other families stay what they were.
        of_tasks = np.random.default_rng([seed, 1])
        W = W * np.exp(of_tasks.standard_normal(tasks))
        noise_of_task = noise * np.exp(of_tasks.standard_normal((tasks, 1)))
        level_of_task = of_tasks.standard_normal((tasks, 1))
    X = rng.standard_normal((tasks, rows, d))
    errors = noise_of_task * rng.standard_normal((tasks, rows))
    y = np.einsum("tnd,dt->tn", X, W) + level_of_task + errors
    task_id = np.repeat(numbers, rows)
    return Dataset(
        X=X.reshape(-1, d),
        y=y.ravel(),
        task_type="regression",
        task_id=task_id,
        truth={"W": W},
    )


def simulate_eurlex(
    *,
    n: int = 19348,
    d: int = 5000,
    m: int = 412,
    draws: int = 300,
    rank: int = 40,
    outliers: int = 20,
    cardinality: float = 1.29,
    least: int = 8,
    seed: int = 0,
) -> Dataset:
    """Documents of the size and sparsity of EUR-Lex with directory codes.

    The design is shared and CSR, the labels are binary.

    Per row `draws` terms with replacement from P(j) ~ j^-0.7, distinct ones kept (about
    258 of 5000), value Exp(1) * -log P(j), rows scaled to norm 1. W = U V' /
    sqrt(rank), entries of U, V ~ N(0, 1), `outliers` columns replaced by N(0, 1).
    Scores X W + N(0, (0.1 std)^2), std per label; the rows with the top scores get the
    label, as many as a Zipf law with exponent 0.8 (in random order of the labels) says,
    at least `least`, `cardinality` per row.

    Parameters
    ----------
    n, d, m : int
        Rows, terms, labels.
    draws, rank, outliers : int
        See above.
    cardinality : float, default=1.29
        Labels per row, on average.
    least : int, default=8
        Positives of the rarest label.
    seed : int, default=0

    Returns
    -------
    Dataset
        ``truth``: W (d, m), ``outliers``.

    Raises
    ------
    DataError
        If a size is not positive, there are more outliers than labels, or the labels do
        not fit the rows.
    """
    check_sizes(n=n, d=d, m=m, draws=draws, rank=rank, least=least)
    allow_simulated((n, draws), (d, m), (n, m), (d, rank), (m, rank))
    _require(0 <= outliers <= m, f"{outliers} outliers of {m} labels cannot be")
    rng = np.random.default_rng(seed)
    X = _documents(n, d, draws, rng)
    W = _low_rank(d, m, rank, rng)
    chosen = np.sort(rng.permutation(m)[:outliers])
    W[:, chosen] = rng.standard_normal((d, outliers))
    scores = _noisy(X @ W, 0.1, rng)
    counts = rng.permutation(_zipf_counts(n, m, cardinality, least))
    Y = np.full((n, m), -1.0)
    for t, count in enumerate(counts):
        order = np.argpartition(scores[:, t], n - count)
        top = order[n - count :]
        Y[top, t] = 1.0
    return Dataset(X=X, y=Y, task_type="binary", truth={"W": W, "outliers": chosen})


def _documents(
    n: int, d: int, draws: int, rng: np.random.Generator
) -> sparse.csr_matrix:
    """Return documents of length 1: n rows with weights of their distinct terms."""
    p = np.arange(1, d + 1) ** -0.7
    p /= p.sum()
    # Terms are drawn by inversion: far faster than `choice` with probabilities.
    uniform = rng.random((n, draws))
    drawn = np.searchsorted(np.cumsum(p), uniform, side="right")
    terms = np.sort(drawn, axis=1)
    # The cumulative sum may end just below 1.
    np.minimum(terms, d - 1, out=terms)
    is_first = np.ones(terms.shape, dtype=bool)
    is_first[:, 1:] = np.diff(terms, axis=1) > 0
    columns = terms[is_first]
    n_terms = is_first.sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(n_terms)])
    # Rare terms weigh more, as with tf-idf.
    idf = -np.log(p[columns])
    values = rng.standard_exponential(len(columns)) * idf
    squared_norms = np.add.reduceat(values**2, indptr[:-1])
    norms = np.repeat(np.sqrt(squared_norms), n_terms)
    normalized = values / norms
    return sparse.csr_matrix((normalized, columns, indptr), shape=(n, d))


def _zipf_counts(n: int, m: int, cardinality: float, least: int) -> Array:
    """Return m label frequencies ~ k^-0.8 in [least, n].

    Their sum is as near to n * cardinality as possible.
    """
    shape = np.arange(1, m + 1) ** -0.8
    _require(
        least * m <= n * cardinality <= n * m and least <= n,
        f"{m} labels with at least {least} positives do not give {cardinality} labels "
        f"to each of {n} rows",
    )
    # Clipping has no closed form: bisection for the factor of the law.
    low = 0.0
    high = float(n) * m
    for _ in range(100):
        middle = (low + high) / 2
        total = np.clip(np.round(middle * shape), least, n).sum()
        if total < n * cardinality:
            low = middle
        else:
            high = middle
    return np.clip(np.round(high * shape), least, n).astype(np.int64)


def _random_spectrum(
    size: int, lower: float, upper: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return log-uniform eigenvalues in [lower, upper] and random eigenvectors."""
    values = np.exp(rng.uniform(np.log(lower), np.log(upper), size))
    basis, triangle = np.linalg.qr(rng.standard_normal((size, size)))
    # The signs of a QR factorization depend on the version of LAPACK.
    signs = np.sign(np.diag(triangle))
    return values, basis * signs


def _low_rank(d: int, m: int, rank: int, rng: np.random.Generator) -> Array:
    """Return U V' / sqrt(rank) for standard normal U (d, rank) and V (m, rank)."""
    U = rng.standard_normal((d, rank))
    V = rng.standard_normal((m, rank))
    return U @ V.T / np.sqrt(rank)


def _even_sizes(n: int, parts: int) -> Array:
    """Return sizes of parts of n rows that differ by at most one."""
    return np.full(parts, n // parts) + (np.arange(parts) < n % parts)


def _noisy(scores: Array, noise: float, rng: np.random.Generator) -> Array:
    """Return scores with noise in units of their standard deviation, by column."""
    return scores + noise * scores.std(axis=0) * rng.standard_normal(scores.shape)


def _require(is_valid: bool, text: str) -> None:
    """Raise a DataError with a text unless arguments are valid."""
    if not is_valid:
        raise DataError(text)


def simulate_breast_cancer(
    *,
    n_genes: int = 60,
    factors: int = 5,
    shared: float = 0.8,
    response: float = 0.25,
    seed: int = 0,
) -> Dataset:
    """Draw 474 patients x 60 genes in 3 studies with a binary response.

    All numbers are random: no patient was measured.

    ``x = F z + e``: z has `factors` standard normal factors; F (genes x factors) has
    independent normal entries such that factors and noise e each explain half of a
    gene's variance of 1 on average; every study has its own shift of the means, of
    scale 0.3. The score of a patient is ``x'(shared * u + (1 - shared) * v_t)``, scaled
    to unit variance inside each study, plus logistic noise of scale 0.5; the share
    `response` of each study with the highest sums responds.

    Parameters
    ----------
    n_genes : int, default=60
    factors : int, default=5
    shared : float, default=0.8
        Share of the weights that the studies have in common, 0..1.
    response : float, default=0.25
        Share of responders, strictly between 0 and 1.
    seed : int, default=0

    Returns
    -------
    Dataset
        Ragged and binary, `truth`: ``W`` (n_genes, 3).

    Raises
    ------
    DataError
        If a parameter is out of range.
    """
    check_sizes(n_genes=n_genes, factors=factors)
    n_patients = sum(STUDIES.values())
    allow_simulated((n_genes, factors), (n_patients, n_genes), (n_patients, factors))
    _require(
        0 <= shared <= 1 and 0 < response < 1,
        f"0 <= shared <= 1 and 0 < response < 1 are needed, not shared={shared}, "
        f"response={response}",
    )
    generator = np.random.default_rng(seed)
    loadings = generator.standard_normal((n_genes, factors)) * np.sqrt(0.5 / factors)
    common = generator.standard_normal(n_genes)
    X = []
    y = []
    W = []
    for size in STUDIES.values():
        genes = generator.standard_normal((size, factors)) @ loadings.T
        genes += np.sqrt(0.5) * generator.standard_normal((size, n_genes))
        genes += 0.3 * generator.standard_normal(n_genes)
        weights = shared * common + (1 - shared) * generator.standard_normal(n_genes)
        score = genes @ weights
        standardized = (score - score.mean()) / score.std()
        total = standardized + 0.5 * generator.logistic(size=size)
        X.append(genes)
        W.append(weights)
        y.append(np.where(total > np.quantile(total, 1 - response), 1.0, -1.0))
    return Dataset(
        X=np.vstack(X),
        y=np.concatenate(y),
        task_type="binary",
        task_id=np.repeat(np.arange(len(STUDIES)), list(STUDIES.values())),
        tasks=list(STUDIES),
        features=[f"gene{j + 1}" for j in range(n_genes)],
        truth={"W": np.column_stack(W)},
    )


def simulate_splice(
    *,
    n: int = 20000,
    length: int = 42,
    organisms: tuple[str, ...] | list[str] = ("fly", "mouse", "human", "cow"),
    decoys: int = 10,
    shared: float = 0.75,
    strength: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """Draw acceptor windows and decoys.

    Every window has AG at positions ``(length - 2) // 2`` and the next (20 and 21 of
    42). Decoys have background bases elsewhere: independent, with the organism's A + T
    content. Sites draw the base at position p from a position weight matrix
    proportional to ``background * exp(strength * (shared * g[p] + (1 - shared) *
    h[p]))``: g leans to T and C in the 16 bases before the site and to a random
    consensus in the 4 bases on each side of it, and is the same for all organisms; h is
    made alike, with another consensus for every organism. Probabilities are multiples
    of 1/256.

    Parameters
    ----------
    n : int, default=20000
        Strings in all; organisms differ by at most one.
    length : int, default=42
        Bases per string, at least 24.
    organisms : list of str
        Tasks; those without a known A + T content get 0.59.
    decoys : int, default=10
        Decoys per site.
    shared : float, default=0.75
        Share of the signal that organisms have in common, 0..1.
    strength : float, default=1.0
        Scale of the signal.
    seed : int, default=0

    Returns
    -------
    Dataset
        Ragged and binary, `X` byte strings, `truth`: ``pwm`` (organisms, length, 4) and
        ``site``.

    Raises
    ------
    DataError
        If a parameter is out of range.
    """
    check_sizes(n=n, length=length, decoys=decoys)
    allow_simulated((n, length), itemsize=1)
    allow_simulated((len(organisms), length, LEVELS))
    _require(
        length >= 24 and 0 <= shared <= 1,
        f"length >= 24 and 0 <= shared <= 1, not {length} and {shared}",
    )
    _require(
        0 < len(set(organisms)) == len(organisms),
        "organisms must be a list of different names",
    )
    _require(
        n >= 2 * len(organisms), f"n = {n} is too small for {len(organisms)} organisms"
    )
    site = (length - 2) // 2
    matrices = []
    for k, organism in enumerate(organisms):
        matrix = _matrix(organism, k, length, site, shared, strength, seed)
        matrices.append(matrix)
    pwm = np.stack(matrices)
    sizes = _even_sizes(n, len(organisms))
    X = np.empty((n, length), dtype=np.uint8)
    y = np.empty(n)
    start = 0
    for k, (organism, size) in enumerate(zip(organisms, sizes, strict=True)):
        generator = np.random.default_rng([seed, 1, k])
        background = _levels(np.tile(_background(organism), (length, 1)))
        signal = _levels(pwm[k])
        for begin in range(start, start + size, _CHUNK):
            rows = slice(begin, min(begin + _CHUNK, start + size))
            positive = generator.random(rows.stop - rows.start) < 1 / (1 + decoys)
            y[rows] = np.where(positive, 1.0, -1.0)
            X[rows] = _draw(generator, positive, signal, background)
        start += size
    X[:, site : site + 2] = np.frombuffer(b"AG", dtype=np.uint8)
    return Dataset(
        X=X.reshape(-1).view(f"S{length}"),
        y=y,
        task_type="binary",
        task_id=np.repeat(np.arange(len(organisms)), sizes),
        tasks=[str(o) for o in organisms],
        truth={"pwm": pwm, "site": np.array(site)},
    )


def _background(organism: str) -> Array:
    at = AT_CONTENT.get(organism, 0.59)
    return np.array([at, 1 - at, 1 - at, at]) / 2


def _matrix(
    organism: str,
    number: int,
    length: int,
    site: int,
    shared: float,
    strength: float,
    seed: int,
) -> Array:
    """Return the position weight matrix (length, 4) of an organism."""
    common = _signal(np.random.default_rng([seed, 0]), length, site)
    signal = _signal(np.random.default_rng([seed, 0, number + 1]), length, site)
    mixture = shared * common + (1 - shared) * signal
    weights = _background(organism) * np.exp(strength * mixture)
    return weights / weights.sum(axis=1, keepdims=True)


def _signal(generator: np.random.Generator, length: int, site: int) -> Array:
    """Return log-odds of the bases at each position around a site, (length, 4)."""
    signal = np.zeros((length, 4))
    # C and T, the pyrimidines.
    signal[max(0, site - TRACT) : site, [1, 3]] = (0.5, 0.9)
    before = range(site - CONSENSUS, site)
    after = range(site + 2, site + 2 + CONSENSUS)
    for p in (*before, *after):
        signal[p, generator.integers(4)] += 1.5
    return signal


def _levels(probabilities: Array) -> Array:
    """Return the bases of 256 equally likely levels of each position.

    The result has shape (length, 256) and type uint8.
    """
    upper = np.round(np.cumsum(probabilities, axis=1) * LEVELS)
    levels = np.arange(LEVELS)[None, :, None]
    code = (levels >= upper[:, None, :3]).sum(axis=2)
    return BASES[code]


def _draw(
    generator: np.random.Generator,
    positive: Array,
    signal: Array,
    background: Array,
) -> Array:
    """Return the letters of sites (positive) and decoys, (n, length)."""
    length = signal.shape[0]
    level = generator.integers(LEVELS, size=(len(positive), length), dtype=np.uint8)
    both = np.stack((background, signal))
    # One flat gather: both[class, position, level] for all letters at once.
    class_start = positive[:, None].astype(np.int64) * (length * LEVELS)
    position_start = np.arange(length) * LEVELS
    return both.reshape(-1)[class_start + position_start + level]
