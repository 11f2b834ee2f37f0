# lmer (lme4) or mgcv on the splits of benchmarks/peers.py, which writes the files that this reads.
#
# Rscript benchmarks/peers.R FOLDER lme4|mgcv|"mgcv, curves" MAX_SLOPES
#
# FOLDER/train-K.csv has the columns y, task, x1, x2 ...; FOLDER/test-K.csv the same. Written are FOLDER/predicted-K.csv,
# and FOLDER/costs.csv: processor seconds of fit and prediction per split, and the peak memory of the process (MB)
# before the first fit and after the last, loaded packages included.
#
# Fits of both have random levels of the tasks. Where there are at most MAX_SLOPES columns, those that vary within at
# least three tasks have random slopes.
# lme4: the best by AIC of levels, levels and independent slopes, and levels and correlated slopes (REML).
# mgcv: a smooth term for every column with at least 10 different values, and lines for others; REML up to 500 rows,
#   above them bam(discrete = TRUE), which mgcv recommends for large tables.
# mgcv, curves: a curve per task (bs = "fs") in place of the slope of every column with a smooth term, and of the level.

arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
method <- arguments[2]
max_slopes <- as.numeric(arguments[3])
package <- sub(",.*", "", method)
suppressMessages(library(package, character.only = TRUE))

peak_megabytes <- function() {
  status <- readLines("/proc/self/status")
  as.numeric(gsub("[^0-9]", "", grep("^VmHWM", status, value = TRUE))) / 1024
}

independent_columns <- function(train) {
  columns <- grep("^x", names(train), value = TRUE)
  decomposition <- qr(cbind(1, as.matrix(train[columns])))
  columns[sort(setdiff(decomposition$pivot[seq_len(decomposition$rank)], 1)) - 1]
}

slope_columns <- function(train, columns) {
  n_varying <- function(column) sum(tapply(train[[column]], train$task, function(x) length(unique(x)) > 1))
  if (length(columns) > max_slopes) character() else Filter(function(column) n_varying(column) >= 3, columns)
}

fit_lme4 <- function(train, columns) {
  common <- paste(c("y ~ 1", columns), collapse = " + ")
  slopes <- paste(c("1", slope_columns(train, columns)), collapse = " + ")
  fits <- list()
  for (effect in c("(1 | task)", sprintf(c("(%s || task)", "(%s | task)"), slopes))) {
    fit <- tryCatch(
      suppressMessages(suppressWarnings(lmer(as.formula(paste(common, "+", effect)), train))),
      # With as many random effects as rows, the noise cannot be estimated.
      error = function(problem) NULL
    )
    if (!is.null(fit)) fits <- c(fits, fit)
    if (slopes == "1") break
  }
  fits[[which.min(sapply(fits, AIC))]]
}

fit_mgcv <- function(train, columns) {
  is_curved <- function(column) length(unique(train[[column]])) >= 10
  common <- sapply(columns, function(column) if (is_curved(column)) sprintf("s(%s)", column) else column)
  level <- "s(task, bs = 're')"
  slopes <- slope_columns(train, columns)
  effects <- c(level, sprintf("s(task, %s, bs = 're')", slopes))
  curves <- Filter(is_curved, slopes)
  if (method == "mgcv, curves" && length(curves)) {
    lines <- setdiff(slopes, curves)
    effects <- c(sprintf("s(%s, task, bs = 'fs', k = 5)", curves), sprintf("s(task, %s, bs = 're')", lines))
  }
  fit <- function(effects) {
    formula <- as.formula(paste("y ~", paste(c(common, effects), collapse = " + ")))
    if (nrow(train) > 500) bam(formula, data = train, discrete = TRUE) else gam(formula, data = train, method = "REML")
  }
  # gam refuses more coefficients than rows: levels alone then.
  tryCatch(fit(effects), error = function(problem) fit(level))
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
costs <- data.frame(seconds, before, after = peak_megabytes(), version = as.character(packageVersion(package)))
write.csv(costs, file.path(folder, "costs.csv"), row.names = FALSE)
