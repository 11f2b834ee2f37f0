"""Compare multi-task methods and baselines on a table of the user.

The modules in the order of a comparison:

* `compare` is the main path, from a table to a result.
* `options`, `protocol`, `candidates` and `jobs` plan it: splits, metric, methods, and a
  job for each method on each split. `differences` and `atlas` describe the table.
* `schedule` computes the jobs, `racing` stops methods that are far behind, and
  `remaining_time` estimates how long the rest takes.
* `evaluation` and `gain` turn predictions into losses and gains, and `verdict` decides
  whether multi-task learning helps. `interval_errors` checks prediction intervals.
* `leaderboard`, `page` and `result` show and save all this. `picture_numbers` takes the
  numbers of the pictures, `gallery` makes the pictures, and `drawing` draws them.
* `chunked` and `summed` compare methods on tables that are larger than memory.
"""
