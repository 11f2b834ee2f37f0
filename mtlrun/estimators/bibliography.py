"""BibTeX of the methods' sources. Standard library only."""

from __future__ import annotations

BIBTEX: dict[str, str] = {
    "pan2015": """@article{pan2015,
  author = {Pan, Yan and Xia, Rongkai and Yin, Jian and Liu, Ning},
  title = {A Divide-and-Conquer Method for Scalable Robust Multitask Learning},
  journal = {IEEE Transactions on Neural Networks and Learning Systems},
  volume = {26}, number = {12}, year = {2015},
  doi = {10.1109/TNNLS.2015.2406759}
}""",
    "chen2011": """@inproceedings{chen2011,
  author = {Chen, Jianhui and Zhou, Jiayu and Ye, Jieping},
  title = {Integrating Low-Rank and Group-Sparse Structures for Robust Multi-Task Learning},
  booktitle = {ACM SIGKDD International Conference on Knowledge Discovery and Data Mining},
  year = {2011}
}""",
    "ji2009": """@inproceedings{ji2009,
  author = {Ji, Shuiwang and Ye, Jieping},
  title = {An Accelerated Gradient Method for Trace Norm Minimization},
  booktitle = {International Conference on Machine Learning},
  year = {2009}
}""",
    "obozinski2010": """@article{obozinski2010,
  author = {Obozinski, Guillaume and Taskar, Ben and Jordan, Michael I.},
  title = {Joint Covariate Selection and Joint Subspace Selection for Multiple Classification Problems},
  journal = {Statistics and Computing},
  volume = {20}, number = {2}, year = {2010}
}""",
    "tibshirani1996": """@article{tibshirani1996,
  author = {Tibshirani, Robert},
  title = {Regression Shrinkage and Selection via the Lasso},
  journal = {Journal of the Royal Statistical Society, Series B},
  volume = {58}, number = {1}, year = {1996}
}""",
    "hoerl1970": """@article{hoerl1970,
  author = {Hoerl, Arthur E. and Kennard, Robert W.},
  title = {Ridge Regression: Biased Estimation for Nonorthogonal Problems},
  journal = {Technometrics},
  volume = {12}, number = {1}, year = {1970}
}""",
    "cox1958": """@article{cox1958,
  author = {Cox, David R.},
  title = {The Regression Analysis of Binary Sequences},
  journal = {Journal of the Royal Statistical Society, Series B},
  volume = {20}, number = {2}, year = {1958}
}""",
    "fan2008": """@article{fan2008,
  author = {Fan, Rong-En and Chang, Kai-Wei and Hsieh, Cho-Jui and Wang, Xiang-Rui and Lin, Chih-Jen},
  title = {{LIBLINEAR}: A Library for Large Linear Classification},
  journal = {Journal of Machine Learning Research},
  volume = {9}, year = {2008}
}""",
    "widmer2012": """@inproceedings{widmer2012,
  author = {Widmer, Christian and Kloft, Marius and G{\\"o}rnitz, Nico and R{\\"a}tsch, Gunnar},
  title = {Efficient Training of Graph-Regularized Multitask {SVMs}},
  booktitle = {European Conference on Machine Learning and Principles and Practice of Knowledge Discovery in Databases},
  year = {2012}
}""",
    "evgeniou2005": """@article{evgeniou2005,
  author = {Evgeniou, Theodoros and Micchelli, Charles A. and Pontil, Massimiliano},
  title = {Learning Multiple Tasks with Kernel Methods},
  journal = {Journal of Machine Learning Research},
  volume = {6}, year = {2005}
}""",
    "zhao2017": """@article{zhao2017,
  author = {Zhao, Han and Stretcu, Otilia and Smola, Alexander J. and Gordon, Geoffrey J.},
  title = {Efficient Multitask Feature and Relationship Learning},
  journal = {arXiv preprint arXiv:1702.04423},
  year = {2017}
}""",
    "zhang2010sparse": """@inproceedings{zhang2010sparse,
  author = {Zhang, Yi and Schneider, Jeff G.},
  title = {Learning Multiple Tasks with a Sparse Matrix-Normal Penalty},
  booktitle = {Advances in Neural Information Processing Systems},
  pages = {2550--2558}, year = {2010}
}""",
    "evgeniou2007": """@inproceedings{evgeniou2007,
  author = {Evgeniou, Theodoros and Pontil, Massimiliano},
  title = {Multi-Task Feature Learning},
  booktitle = {Advances in Neural Information Processing Systems},
  volume = {19}, year = {2007}
}""",
    "zhang2010convex": """@inproceedings{zhang2010convex,
  author = {Zhang, Yu and Yeung, Dit-Yan},
  title = {A Convex Formulation for Learning Task Relationships in Multi-Task Learning},
  booktitle = {Conference on Uncertainty in Artificial Intelligence},
  year = {2010}
}""",
    "gong2012": """@inproceedings{gong2012,
  author = {Gong, Pinghua and Ye, Jieping and Zhang, Changshui},
  title = {Robust Multi-Task Feature Learning},
  booktitle = {ACM SIGKDD International Conference on Knowledge Discovery and Data Mining},
  year = {2012}
}""",
    "chen2010": """@inproceedings{chen2010,
  author = {Chen, Jianhui and Liu, Ji and Ye, Jieping},
  title = {Learning Incoherent Sparse and Low-Rank Patterns from Multiple Tasks},
  booktitle = {ACM SIGKDD International Conference on Knowledge Discovery and Data Mining},
  year = {2010}
}""",
    "jalali2010": """@inproceedings{jalali2010,
  author = {Jalali, Ali and Ravikumar, Pradeep and Sanghavi, Sujay and Ruan, Chao},
  title = {A Dirty Model for Multi-Task Learning},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2010}
}""",
    "evgeniou2004": """@inproceedings{evgeniou2004,
  author = {Evgeniou, Theodoros and Pontil, Massimiliano},
  title = {Regularized Multi-Task Learning},
  booktitle = {ACM SIGKDD International Conference on Knowledge Discovery and Data Mining},
  year = {2004}
}""",
    "zhou2011": """@inproceedings{zhou2011,
  author = {Zhou, Jiayu and Yuan, Lei and Liu, Jun and Ye, Jieping},
  title = {A Multi-Task Learning Formulation for Predicting Disease Progression},
  booktitle = {ACM SIGKDD International Conference on Knowledge Discovery and Data Mining},
  year = {2011}
}""",
    "zhou2012": """@inproceedings{zhou2012,
  author = {Zhou, Jiayu and Liu, Jun and Narayan, Vaibhav A. and Ye, Jieping},
  title = {Modeling Disease Progression via Fused Sparse Group Lasso},
  booktitle = {ACM SIGKDD International Conference on Knowledge Discovery and Data Mining},
  year = {2012}
}""",
    "zhou2011clustered": """@inproceedings{zhou2011clustered,
  author = {Zhou, Jiayu and Chen, Jianhui and Ye, Jieping},
  title = {Clustered Multi-Task Learning via Alternating Structure Optimization},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2011}
}""",
    "chen2009": """@inproceedings{chen2009,
  author = {Chen, Jianhui and Tang, Lei and Liu, Jun and Ye, Jieping},
  title = {A Convex Formulation for Learning Shared Structures from Multiple Tasks},
  booktitle = {International Conference on Machine Learning},
  year = {2009}
}""",
}
