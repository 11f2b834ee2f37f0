# Written by `python -m mtlrun.estimators`.
# ruff: noqa: I001
from mtlrun.estimators.base import DegenerateModelWarning as DegenerateModelWarning
from mtlrun.estimators.baselines import CalibratedTasks as CalibratedTasks
from mtlrun.estimators.baselines import PerTask as PerTask
from mtlrun.estimators.baselines import ScaledTargets as ScaledTargets
from mtlrun.estimators.baselines import TaskFeature as TaskFeature
from mtlrun.estimators.baselines import TaskMean as TaskMean
from mtlrun.estimators.clustered import CMTL as CMTL
from mtlrun.estimators.clustered import CoClus as CoClus
from mtlrun.estimators.clustered import FlexClus as FlexClus
from mtlrun.estimators.clustered import MeTaG as MeTaG
from mtlrun.estimators.clustered import Whom as Whom
from mtlrun.estimators.graph import GraphMTL as GraphMTL
from mtlrun.estimators.graph import GraphMTLClassifier as GraphMTLClassifier
from mtlrun.estimators.hierarchical import HierarchicalMTL as HierarchicalMTL
from mtlrun.estimators.hierarchical_labels import (
    HierarchicalMTLClassifier as HierarchicalMTLClassifier,
)
from mtlrun.estimators.independent import IndependentLasso as IndependentLasso
from mtlrun.estimators.independent import IndependentLogistic as IndependentLogistic
from mtlrun.estimators.independent import IndependentRidge as IndependentRidge
from mtlrun.estimators.independent import IndependentSVC as IndependentSVC
from mtlrun.estimators.independent import PooledLasso as PooledLasso
from mtlrun.estimators.independent import PooledLogistic as PooledLogistic
from mtlrun.estimators.independent import PooledRidge as PooledRidge
from mtlrun.estimators.independent import PooledSVC as PooledSVC
from mtlrun.estimators.mixtures import DirtyMTL as DirtyMTL
from mtlrun.estimators.mixtures import DirtyMTLClassifier as DirtyMTLClassifier
from mtlrun.estimators.mixtures import RobustFeatureMTL as RobustFeatureMTL
from mtlrun.estimators.mixtures import (
    RobustFeatureMTLClassifier as RobustFeatureMTLClassifier,
)
from mtlrun.estimators.mixtures import SparseLowRankMTL as SparseLowRankMTL
from mtlrun.estimators.mixtures import (
    SparseLowRankMTLClassifier as SparseLowRankMTLClassifier,
)
from mtlrun.estimators.mkl import GroupMKLClassifier as GroupMKLClassifier
from mtlrun.estimators.mkl import IndependentMKLClassifier as IndependentMKLClassifier
from mtlrun.estimators.mkl import SharedMKLClassifier as SharedMKLClassifier
from mtlrun.estimators.network import MTNetwork as MTNetwork
from mtlrun.estimators.paths import DirtyMTLCV as DirtyMTLCV
from mtlrun.estimators.paths import DirtyMTLClassifierCV as DirtyMTLClassifierCV
from mtlrun.estimators.paths import FusedMTLCV as FusedMTLCV
from mtlrun.estimators.paths import FusedMTLClassifierCV as FusedMTLClassifierCV
from mtlrun.estimators.paths import JointFeatureMTLCV as JointFeatureMTLCV
from mtlrun.estimators.paths import (
    JointFeatureMTLClassifierCV as JointFeatureMTLClassifierCV,
)
from mtlrun.estimators.paths import RobustFeatureMTLCV as RobustFeatureMTLCV
from mtlrun.estimators.paths import (
    RobustFeatureMTLClassifierCV as RobustFeatureMTLClassifierCV,
)
from mtlrun.estimators.paths import RobustMTLCV as RobustMTLCV
from mtlrun.estimators.paths import RobustMTLClassifierCV as RobustMTLClassifierCV
from mtlrun.estimators.paths import SparseLowRankMTLCV as SparseLowRankMTLCV
from mtlrun.estimators.paths import (
    SparseLowRankMTLClassifierCV as SparseLowRankMTLClassifierCV,
)
from mtlrun.estimators.paths import SparseMTLCV as SparseMTLCV
from mtlrun.estimators.paths import SparseMTLClassifierCV as SparseMTLClassifierCV
from mtlrun.estimators.paths import TemporalGroupLassoCV as TemporalGroupLassoCV
from mtlrun.estimators.paths import (
    TemporalGroupLassoClassifierCV as TemporalGroupLassoClassifierCV,
)
from mtlrun.estimators.paths import TraceNormMTLCV as TraceNormMTLCV
from mtlrun.estimators.paths import TraceNormMTLClassifierCV as TraceNormMTLClassifierCV
from mtlrun.estimators.penalized import JointFeatureMTL as JointFeatureMTL
from mtlrun.estimators.penalized import (
    JointFeatureMTLClassifier as JointFeatureMTLClassifier,
)
from mtlrun.estimators.penalized import SparseMTL as SparseMTL
from mtlrun.estimators.penalized import SparseMTLClassifier as SparseMTLClassifier
from mtlrun.estimators.penalized import TraceNormMTL as TraceNormMTL
from mtlrun.estimators.penalized import TraceNormMTLClassifier as TraceNormMTLClassifier
from mtlrun.estimators.relationship import FETR as FETR
from mtlrun.estimators.relationship import MTFL as MTFL
from mtlrun.estimators.relationship import MTFRL as MTFRL
from mtlrun.estimators.relationship import MTRL as MTRL
from mtlrun.estimators.relaxations import ClusteredMTL as ClusteredMTL
from mtlrun.estimators.relaxations import (
    ClusteredMTLClassifier as ClusteredMTLClassifier,
)
from mtlrun.estimators.relaxations import ConvexASO as ConvexASO
from mtlrun.estimators.relaxations import ConvexASOClassifier as ConvexASOClassifier
from mtlrun.estimators.robust import DivideAndConquerRMTL as DivideAndConquerRMTL
from mtlrun.estimators.robust import (
    DivideAndConquerRMTLClassifier as DivideAndConquerRMTLClassifier,
)
from mtlrun.estimators.robust import RobustMTL as RobustMTL
from mtlrun.estimators.robust import RobustMTLClassifier as RobustMTLClassifier
from mtlrun.estimators.svm import GraphSVC as GraphSVC
from mtlrun.estimators.svm import MultiTaskKernelSVC as MultiTaskKernelSVC
from mtlrun.estimators.temporal import FusedMTL as FusedMTL
from mtlrun.estimators.temporal import FusedMTLClassifier as FusedMTLClassifier
from mtlrun.estimators.temporal import TemporalGroupLasso as TemporalGroupLasso
from mtlrun.estimators.temporal import (
    TemporalGroupLassoClassifier as TemporalGroupLassoClassifier,
)
from mtlrun.estimators.tuned import TunedKernelRidge as TunedKernelRidge
from mtlrun.estimators.tuned import TunedLogistic as TunedLogistic
from mtlrun.estimators.tuned import TunedRidge as TunedRidge

HOMES: dict[str, str]
