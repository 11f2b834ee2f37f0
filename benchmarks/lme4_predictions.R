# Linear mixed models of lme4 on training rows, and their predictions of test rows: the R part of
# benchmarks/atlas_mixed_models.py, which writes the files that this reads.
#
# Rscript benchmarks/lme4_predictions.R FOLDER SECONDS SLOPES
#
# FOLDER/train-K.csv has the columns y, task, x1, x2 ...; FOLDER/test-K.csv the same without y. Fitted by REML with the
# defaults of lmer are intercept, y ~ x1 + x2 + ... + (1 | task), and slopes, ... + (1 + x1 + x2 + ... | task). Written are
# FOLDER/MODEL-K.csv (predictions) and FOLDER/lme4.csv (model, fold, processor seconds, notes).

suppressMessages(library(lme4))
given <- commandArgs(trailingOnly = TRUE)
folder <- given[1]
limit <- as.numeric(given[2])
slopes <- as.numeric(given[3])
found <- NULL
for (model in c("intercept", "slopes")) {
  for (path in sort(list.files(folder, "^train-[0-9]+\\.csv$", full.names = TRUE))) {
    fold <- sub(".*train-([0-9]+)\\.csv", "\\1", path)
    train <- read.csv(path)
    test <- read.csv(file.path(folder, sprintf("test-%s.csv", fold)))
    columns <- grep("^x", names(train), value = TRUE)
    within <- if (model == "slopes") c("1", columns) else "1"
    text <- sprintf("y ~ %s + (%s | task)", paste(c("1", columns), collapse = " + "), paste(within, collapse = " + "))
    started <- sum(proc.time()[1:2])
    note <- tryCatch({
      if (model == "slopes" && length(columns) > slopes) stop(sprintf("more than %.0f columns", slopes))
      setTimeLimit(cpu = limit, transient = TRUE)
      fit <- suppressWarnings(suppressMessages(lmer(as.formula(text), train)))
      told <- predict(fit, test, allow.new.levels = TRUE)
      setTimeLimit()
      write.csv(data.frame(told), file.path(folder, sprintf("%s-%s.csv", model, fold)), row.names = FALSE)
      warned <- length(fit@optinfo$conv$lme4$messages) > 0 && !isSingular(fit)
      if (isSingular(fit)) "singular" else if (warned) "not converged" else ""
    }, error = function(e) paste("failed:", gsub("[\n,\"]", " ", conditionMessage(e))))
    setTimeLimit()
    seconds <- sum(proc.time()[1:2]) - started
    found <- rbind(found, data.frame(model, fold, seconds, note))
    if (startsWith(note, "failed")) break
  }
}
write.csv(found, file.path(folder, "lme4.csv"), row.names = FALSE)
