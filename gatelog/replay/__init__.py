"""`gatelog replay`: files, terminal and texts; projector.replay folds.

exporting    from the log to a file
parking      what was parked, and what a person says about it
steps        one group, event by event: what came, what changed, what was decided and why
running      verify, redecide, at, steps: what each does with a log
"""
