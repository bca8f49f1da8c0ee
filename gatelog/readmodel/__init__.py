"""What people ask of the read model: SQL, its rows, and the words and sums made of them."""
