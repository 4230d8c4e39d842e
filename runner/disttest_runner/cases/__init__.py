"""The cases of a suite: sources, collection, selection, repetition, and the modules to preload."""
