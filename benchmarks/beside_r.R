# Fits of lme4 and mgcv for benchmarks/beside_r.py, which sends one command per line.
#
# read FILE            read a table with the columns y, task, x1, x2 ...
# fit FORMULA          fit it once (lmer, or bam with discrete = TRUE where it has s()); print the processor seconds
# predict FILE FILE    predict the rows of the first file with the last fit, into the second
# quit

suppressMessages(library(lme4))
suppressMessages(library(mgcv))
input <- file("stdin", "r")
repeat {
  words <- strsplit(readLines(input, 1), " ", fixed = TRUE)[[1]]
  if (words[1] == "quit") break
  if (words[1] == "read") {
    rows <- read.csv(words[2], colClasses = c(task = "factor"))
    if ("group" %in% names(rows)) rows$group <- factor(rows$group)
    answer <- nrow(rows)
  } else if (words[1] == "fit") {
    text <- paste(words[-1], collapse = " ")
    is_curve <- grepl("s(", text, fixed = TRUE)
    started <- proc.time()
    fit <- suppressMessages(suppressWarnings(
      if (is_curve) bam(as.formula(text), data = rows, discrete = TRUE)
      else lmer(as.formula(text), rows, control = lmerControl(calc.derivs = FALSE))
    ))
    answer <- sum((proc.time() - started)[1:2])
  } else {
    new <- read.csv(words[2], colClasses = c(task = "factor"))
    write.csv(data.frame(predicted = as.numeric(predict(fit, new))), words[3], row.names = FALSE)
    answer <- nrow(new)
  }
  cat(answer, "\n")
  flush(stdout())
}
