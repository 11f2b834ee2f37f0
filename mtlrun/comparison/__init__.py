"""Compare multi-task methods and baselines on a table of the user.

The modules in the order of a comparison:

* `compare` is the main path, from a table to a result.
* `options`, `protocol` and `candidates` plan it: splits, metric and methods.
  `differences` describes the table, also by the tables of the atlas.
* `schedule` makes a job for each method on each split, computes the jobs and estimates
  how long the rest takes; `racing` stops methods that are far behind.
* `evaluation` and `gain` turn predictions into losses and gains, and `verdict` decides
  whether multi-task learning helps.
* `leaderboard`, `coefficients`, `predictions`, `page` and `result` show and save all
  this. `predictions` has the errors for prediction intervals, too, and `gallery` takes
  the numbers of the pictures.

Tables larger than memory are compared in `mtlrun.chunks`.
"""
