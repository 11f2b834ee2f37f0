# lmer (lme4) or mgcv on the splits of benchmarks/peers.py, which writes the files that this reads.
#
# Rscript benchmarks/peers.R FOLDER lme4|mgcv MAX_SLOPES
#
# FOLDER/train-K.csv has the columns y, task, x1, x2 ...; FOLDER/test-K.csv the same. Written are FOLDER/predicted-K.csv,
# and FOLDER/costs.csv: processor seconds of fit and prediction per split, and the peak memory of the process (MB)
# before the first fit and after the last, loaded packages included.
#
# Fits of both have random levels of the tasks, and random slopes of all columns where there are at most MAX_SLOPES.
# lme4: the best by AIC of levels, levels and independent slopes, and levels and correlated slopes (REML).
# mgcv: a smooth term for every column with at least 10 different values, and lines for others; REML up to 500 rows,
#   above them bam(discrete = TRUE), which mgcv recommends for large tables.

arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
method <- arguments[2]
max_slopes <- as.numeric(arguments[3])
suppressMessages(library(method, character.only = TRUE))

peak_megabytes <- function() {
  status <- readLines("/proc/self/status")
  as.numeric(gsub("[^0-9]", "", grep("^VmHWM", status, value = TRUE))) / 1024
}

independent_columns <- function(train) {
  columns <- grep("^x", names(train), value = TRUE)
  decomposition <- qr(cbind(1, as.matrix(train[columns])))
  columns[sort(setdiff(decomposition$pivot[seq_len(decomposition$rank)], 1)) - 1]
}

fit_lme4 <- function(train, columns) {
  common <- paste(c("y ~ 1", columns), collapse = " + ")
  effects <- "(1 | task)"
  if (length(columns) <= max_slopes) {
    slopes <- paste(c("1", columns), collapse = " + ")
    effects <- c(effects, sprintf(c("(%s || task)", "(%s | task)"), slopes))
  }
  fits <- list()
  for (effect in effects) {
    fit <- tryCatch(
      suppressMessages(suppressWarnings(lmer(as.formula(paste(common, "+", effect)), train))),
      # With as many random effects as rows, the noise cannot be estimated.
      error = function(problem) NULL
    )
    if (!is.null(fit)) fits <- c(fits, fit)
  }
  fits[[which.min(sapply(fits, AIC))]]
}

fit_mgcv <- function(train, columns) {
  terms <- "s(task, bs = 're')"
  slopes <- NULL
  for (column in columns) {
    n_values <- length(unique(train[[column]]))
    terms <- c(terms, if (n_values >= 10) sprintf("s(%s)", column) else column)
    slopes <- c(slopes, sprintf("s(task, %s, bs = 're')", column))
  }
  fit <- function(terms) {
    formula <- as.formula(paste("y ~", paste(terms, collapse = " + ")))
    if (nrow(train) > 500) bam(formula, data = train, discrete = TRUE) else gam(formula, data = train, method = "REML")
  }
  if (length(columns) > max_slopes) return(fit(terms))
  # gam refuses more coefficients than rows: no slopes then.
  tryCatch(fit(c(terms, slopes)), error = function(problem) fit(terms))
}

fit_and_predict <- function(train, test) {
  train$task <- factor(train$task)
  test$task <- factor(test$task, levels(train$task))
  columns <- independent_columns(train)
  fit <- if (method == "lme4") fit_lme4(train, columns) else fit_mgcv(train, columns)
  as.numeric(predict(fit, test))
}

# A fit on other rows first, so that code is compiled and loaded before it is measured.
set.seed(0)
warm <- data.frame(y = rnorm(80), task = rep(1:8, 10), x1 = rnorm(80))
invisible(fit_and_predict(warm, warm))
before <- peak_megabytes()
seconds <- NULL
for (split in seq_along(list.files(folder, "^train-[0-9]+\\.csv$")) - 1) {
  train <- read.csv(file.path(folder, sprintf("train-%d.csv", split)))
  test <- read.csv(file.path(folder, sprintf("test-%d.csv", split)))
  started <- proc.time()
  predicted <- fit_and_predict(train, test)
  spent <- proc.time() - started
  seconds <- c(seconds, spent[["user.self"]] + spent[["sys.self"]])
  write.csv(data.frame(predicted), file.path(folder, sprintf("predicted-%d.csv", split)), row.names = FALSE)
}
costs <- data.frame(seconds, before, after = peak_megabytes(), version = as.character(packageVersion(method)))
write.csv(costs, file.path(folder, "costs.csv"), row.names = FALSE)
