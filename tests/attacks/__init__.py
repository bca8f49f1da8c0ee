"""Attacks on the quota and on other people's objects, end to end.

Each test plays a tenant (or a part of gatelog gone wrong) against `gatelog up` on the stand-in,
while an observer watches pods like anybody could and adds up what runs. An attack has failed when
the sum never was above the quota at any watch event and nobody else's object was touched.
"""
