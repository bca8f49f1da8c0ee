"""How tables are laid out, described and partitioned, and the views over them."""
