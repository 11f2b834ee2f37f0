"""Fitted pipelines: train, save, load, predict, draw."""
