"""What rules share: questions to the state, orders, and decisions that several rules make."""
