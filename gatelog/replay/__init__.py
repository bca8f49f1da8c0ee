"""`gatelog replay`: the parts that know files, terminals and words; folding is projector.replay's.

recordings   watch recordings of a cluster as a log
steps        one group, event by event: what came, what changed, what was decided and why
running      verify, redecide, at, steps: what each does with a log
"""
