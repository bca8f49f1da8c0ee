"""What goes to outside support: one archive, and nothing secret in it.

`scrubbing` takes secrets out of texts, `cluster` asks the API server for what gatelog's pods say,
`writing` puts everything into the archive.
"""
