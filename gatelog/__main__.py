"""`python -m gatelog` is `gatelog`."""

from gatelog.cli import main

main()
