"""How answers look on a terminal and in a pipe, and how a name that is typed is looked up."""
